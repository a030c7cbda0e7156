"""Host devices that are one piece of hardware under any name, and their exclusion for a second pod."""

import pytest

from agent.core.inventory.device import HostDevice
from agent.core.inventory.hardware import identify_hardware
from agent.core.lists.build_lists import build_lists
from tests.core.builders import candidate, lists, look_at, make_listed, snapshot, spec

A, B = "example.com/a", "example.com/b"
SEAT, OTHER = "node:pci-0-usb-0:1:1.0/ttyUSB", "node:pci-0-usb-0:2:1.0/ttyUSB"


def node(place, number="c188:0", inode="7", key=None):
    seated = place.startswith("node:")
    key = key or (f"/sys/devices/{place}/{number}" if seated else f"node:{number}")
    return HostDevice("node", key, "/dev/name", place, instance_id=f"{number} {inode}")


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (node(SEAT), node(SEAT, "c188:1"), True),
        (node(SEAT), node(OTHER), False),
        (node("/dev/a"), node("/dev/b"), True),
        (node("/dev/a"), node("/dev/a", "c188:1"), False),
        (node("/dev/a"), node("/dev/a", "b188:0"), False),
        (node("/dev/a"), node(SEAT), True),
        (node("/dev/a", "c188:1"), node(SEAT), False),
    ],
)
def test_a_node_is_where_it_sits_or_else_its_number(one, other, same):
    assert identify_hardware(one).may_equal(identify_hardware(other)) is same
    assert identify_hardware(other).may_equal(identify_hardware(one)) is same


def had(name, device, **more):
    return make_listed(name, device.location, key=device.key, instance_id=device.instance_id, **more)


# What a pod has as x, what is there now, and whether that is offered.
NEWCOMERS = [
    (node("/dev/by-id/x"), node("/dev/ttyUSB0"), "y", False),  # the link vanished
    (node("/dev/by-id/x"), node("/dev/ttyUSB0", inode="8"), "y", False),
    (node("/dev/by-id/x"), node("/dev/ttyUSB1", "c188:1"), "y", True),
    (node("/dev/by-id/x"), node("/dev/ttyUSB1", "c188:1"), "x", False),  # a/b and a_b
    (node(SEAT), node(SEAT, "c188:1"), "y", False),  # replugged, the link late
    (node(SEAT), node(OTHER, "c188:1"), "y", True),
    (node(SEAT), node(OTHER, "c188:1"), "x", False),  # a link moved
    (node(SEAT), node(OTHER), "y", False),  # the pod may use the number
    (node(SEAT, key="/sys/1"), node(SEAT, "c188:0", "9", "/sys/1"), "y", False),
    (node("/dev/x"), node("/dev/x", "c188:5"), "x", False),
]


@pytest.mark.parametrize("resource", [A, B])
@pytest.mark.parametrize(("before", "now", "name", "offered"), NEWCOMERS)
def test_what_a_pod_has_is_offered_under_no_other_name(before, now, name, offered, resource):
    found = look_at(candidate(now, name, resource=resource, ids_from_name=frozenset({name})))
    entries = (spec(A), spec(B))
    told = build_lists(found, entries, frozenset("x"), lists(snapshot(had("x", before))), 1.0)
    devices = [device for list_ in told.lists.values() for device in list_.devices]
    assert {device.id: not device.reason for device in devices} == {"x": False} | ({name: True} if offered else {})
    assert bool(told.unlisted) is not offered
    free = told
    for _ in range(2):  # it leaves one list before it joins the other
        free = build_lists(found, entries, frozenset(), free.lists, 2.0)
    assert {device.id for list_ in free.lists.values() for device in list_.devices if not device.reason} == {name}


def test_what_is_listed_is_unhealthy_while_it_has_the_number_that_a_pod_has():
    other = node(OTHER, "c188:1")
    before = snapshot(had("x", node(SEAT)), had("y", other))
    now = look_at(candidate(node(OTHER, "c188:0", key=other.key), "y"))
    told = build_lists(now, (spec(A),), frozenset("x"), lists(before), 1.0)
    assert {device.id: str(device.reason) for device in told.lists[A].devices} == {"x": "absent", "y": "absent"}
    assert [one.reason for one in told.unlisted] == [f"a pod holds it as {A} x"]
    free = build_lists(now, (spec(A),), frozenset(), told.lists, 2.0)
    assert {device.id: str(device.reason) for device in free.lists[A].devices} == {"x": "absent", "y": ""}


@pytest.mark.parametrize("name", ["x", "x@2"])
def test_of_two_with_one_serial_number_the_second_never_gets_the_id_that_a_pod_has(name):
    """Nor after a restart: that there were two is remembered with the device."""
    first, second = (HostDevice("usb", f"/sys/{place}", place, f"usb:{place}", instance_id="1") for place in "12")
    both = look_at(candidate(first, "x"), candidate(second, *dict.fromkeys(("x", name))))
    two = build_lists(both, (spec(A),), frozenset("x"), {}, 1.0)
    two = build_lists(both, (spec(A),), frozenset("x"), two.lists, 1.0)
    assert next(device for device in two.lists[A].devices if device.id == "x").has_contested_id
    one = look_at(candidate(second, *dict.fromkeys(("x", name))))
    told = build_lists(one, (spec(A),), frozenset("x"), two.lists, 2.0)
    said = {device.id: str(device.reason) for device in told.lists[A].devices}
    assert said["x"] == "absent"
    assert said == {"x": "absent"} | ({} if name == "x" else {"x@2": ""})
