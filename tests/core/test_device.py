import pytest

from agent.core.grants.parse_request import parse_ids
from agent.core.inventory.device import (
    Device,
    DeviceList,
    Health,
    Member,
    compute_device_bytes,
    make_list_sort_key,
    make_unhealthy,
    split_share,
)
from agent.core.lists.transitions import BLIP_REASON, Transition, find_transitions
from agent.core.reason import Reason
from agent.core.struct import replace
from tests.core.builders import make_listed, snapshot

SHARED = make_listed("x", shares=3)
UPPER = make_listed("x", shares=6, first_share=4, health=Health.UNHEALTHY)
MIXED = snapshot(make_listed("a"), make_listed("x"), SHARED, UPPER)


@pytest.mark.parametrize(
    ("written", "base", "share"),
    [
        ("x", "x", None),
        ("x::0", "x", 0),
        ("x::12", "x", 12),
        ("a:b::3", "a:b", 3),
        ("x:::0", "x:", 0),
        ("::0", "", 0),
        ("x::part-7", "x", 7),
        ("x::part-", "x::part-", None),
        ("x::", "x::", None),
        ("x::01", "x::01", None),
        ("x::-1", "x::-1", None),
        ("x::\u0661", "x::\u0661", None),
        ("x::" + "9" * 5000, "x::" + "9" * 5000, None),
        ("0000:3b:00.0", "0000:3b:00.0", None),
    ],
)
def test_an_id_of_the_kubelets_is_a_base_and_perhaps_a_share(written, base, share):
    mark = "" if share is None else written[len(base) :].rstrip("0123456789")
    assert split_share(written) == ((base, mark), share)


def test_the_ids_that_the_kubelet_sees():
    assert list(make_listed("a").list_ids()) == ["a"]
    assert list(SHARED.list_ids()) == ["x::0", "x::1", "x::2"]
    assert list(UPPER.list_ids()) == ["x::4", "x::5"]
    assert [len(device) for device in MIXED.devices] == [1, 1, 3, 2]


@pytest.mark.parametrize(
    ("written", "found"),
    [
        ("a", (MIXED.devices[0], None)),
        ("x", (MIXED.devices[1], None)),
        ("x::2", (SHARED, 2)),
        ("x::3", None),
        ("x::4", (UPPER, 4)),
        ("x::6", None),
        ("a::0", None),
        ("b", None),
        ("", None),
    ],
)
def test_finding(written, found):
    assert MIXED.find_device(written) == found


def test_suffixes_of_ones_own_are_told_apart():
    own, other = make_listed("x", shares=2, share_suffix="::part-"), make_listed("x", shares=2)
    mixed = snapshot(own, other)
    assert list(own.list_ids()) == ["x::part-0", "x::part-1"]
    assert mixed.find_device("x::part-1") == (own, 1)
    assert mixed.find_device("x::1") == (other, 1)
    assert mixed.find_device("x::pard-1") is None


def test_every_id_of_a_list_is_found_in_it():
    assert all(MIXED.find_device(name)[0] is device for device in MIXED.devices for name in device.list_ids())


def test_counting():
    assert MIXED.count_ids(Health.HEALTHY) == 5
    assert MIXED.count_ids(Health.UNHEALTHY) == 2


WALKS = []


class Counted(tuple):
    __slots__ = ()

    def __iter__(self):
        WALKS.append(1)
        return super().__iter__()


def test_a_list_is_gone_through_once_however_much_is_asked_for():
    many = DeviceList("example.com/a", Counted([make_listed("b"), SHARED, UPPER, make_listed("a")]))
    for _ in range(3):
        asked = parse_ids(many, ["x::2", "b", "x::0"])
        assert [(device.id, shares) for device, shares in asked.items()] == [("b", ()), ("x", (0, 2))]
        assert many.id_count == 7
    assert len(WALKS) == 2


def test_the_index_is_no_part_of_a_list():
    other = DeviceList(MIXED.resource, MIXED.devices)
    other.find_device("a")
    assert other == snapshot(*MIXED.devices)
    assert "index" not in repr(other)


def test_list_order():
    devices = [make_listed("a9"), make_listed("a10"), make_listed("x"), SHARED, UPPER]
    mixed = devices[2:] + devices[1::-1]
    assert sorted(mixed, key=make_list_sort_key) == devices


def test_unhealthy_is_the_same_object_where_nothing_changes():
    sick = make_unhealthy(make_listed("a"), "absent", 1.0)
    assert (sick.health, sick.reason, sick.absent_since) == (Health.UNHEALTHY, Reason.from_text("absent"), 1.0)
    assert make_unhealthy(sick, "absent", 1.0) is sick
    assert make_unhealthy(sick, "absent", None).absent_since is None


@pytest.mark.parametrize("numa", [0, 1, 2])
@pytest.mark.parametrize("length", [1, 36, 63])
def test_the_size_of_a_device_is_an_upper_bound(length, numa):
    """By the wire format: tag and length for each of id, health, topology, its nodes and their numbers."""
    node = bytes((0x0A, 2, 0x08, 1))
    topology = b"\x1a" + bytes([numa * len(node)]) + node * numa if numa else b""
    device = b"\x0a" + bytes([length]) + b"x" * length + b"\x12\x09Unhealthy" + topology
    assert 0 <= compute_device_bytes(length, numa) - len(b"\x0a" + bytes([len(device)]) + device) <= 2


def test_transitions_are_told_once_each():
    sick = make_unhealthy(make_listed("a"), "absent", 1.0)
    sicker = make_unhealthy(make_listed("a"), "broken", None)
    before = snapshot(make_listed("a"), make_listed("b"), SHARED)
    after = snapshot(sick, SHARED, make_listed("c", reason=""))
    assert list(find_transitions(before, after)) == [
        Transition("example.com/a", "a", Health.HEALTHY, Health.UNHEALTHY, "absent", "a", "key a"),
        Transition("example.com/a", "c", None, Health.HEALTHY, "", "c", "key c"),
        Transition("example.com/a", "b", Health.HEALTHY, None, "no pod can hold it", "b", "key b"),
    ]
    assert list(find_transitions(after, after)) == []
    assert [str(one) for one in find_transitions(snapshot(sick), snapshot(make_listed("a")))] == [
        "example.com/a a: Unhealthy → Healthy: back, was: absent"
    ]
    assert [one.reason for one in find_transitions(snapshot(sick), snapshot(sicker))] == ["broken"]


MEMBERS = (Member("p", "k", "1", "p"), Member("q", "l", "1", "q"))


@pytest.mark.parametrize(
    ("before", "after", "blip"),
    [
        (make_listed("a", instance_id="1"), make_listed("a", instance_id="1"), False),
        (make_listed("a", instance_id="1"), make_listed("a", instance_id="2"), True),
        (
            make_listed("a", instance_id=""),
            make_listed("a", instance_id="2"),
            False,
        ),  # of the last life, or nobody could tell
        (make_listed("a", instance_id="1"), make_listed("a", instance_id=""), False),
        (
            make_listed("a", instance_id="1", moved_words=("netdev",)),
            make_listed("a", instance_id="2"),
            False,
        ),  # back from its pod
        (make_listed("a", instance_id="1"), make_unhealthy(make_listed("a", instance_id="2"), "absent", 1.0), False),
        (
            make_listed("a", members=MEMBERS),
            make_listed("a", members=(MEMBERS[0], MEMBERS[1]._replace(instance_id="2"))),
            True,
        ),
        (make_listed("a", members=MEMBERS), make_listed("a", members=MEMBERS[:1]), False),
        (make_listed("a", members=MEMBERS), make_listed("a", members=(*MEMBERS, Member("r", "m", "9", "r"))), False),
    ],
)
def test_what_was_replaced_between_two_looks_is_a_blip(before, after, blip):
    found = list(find_transitions(snapshot(before), snapshot(replace(after))))
    assert [one.reason for one in found if one.is_blip] == [BLIP_REASON] * blip


def test_devices_are_values():
    assert make_listed("a") == make_listed("a")
    assert hash(make_listed("a")) == hash(make_listed("a"))
    assert Device("a", "p", "k", Health.HEALTHY).share_base == ("a", "")
