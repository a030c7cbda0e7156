"""What becomes of a list, case by case; `test_assemble_life.py` has the rules for every case."""

import pytest

from agent.core.inventory.device import Device, DeviceList, Health
from agent.core.language.glob import parse
from agent.core.lists.build_lists import MAX_LIST_BYTES, build_lists
from agent.core.lists.list_builder import RETIRED_REASON
from agent.core.lists.list_inputs import FORGET_SECONDS
from agent.core.reason import Reason
from agent.core.struct import replace
from tests.core.builders import candidate, host, lists, look_at, make_listed, node, snapshot, spec

A, B = "example.com/a", "example.com/b"
NONE = frozenset()


def build(*candidates, specs=None, held=NONE, before=(), now=0.0, turned_down=()):
    """Return the device lists after earlier lists."""
    entries = (spec(A),) if specs is None else specs
    shares = {entry.name: entry.shares for entry in entries}
    candidates = [replace(one, shares=shares.get(one.resource)) if one.shares is None else one for one in candidates]
    return build_lists(look_at(*candidates, turned_down=turned_down), entries, frozenset(held), lists(*before), now)


def format_ids(assembly, resource=A):
    """Return the IDs of the kubelet, with the reason of Unhealthy ones."""
    return {name: str(device.reason) for device in assembly.lists[resource].devices for name in device.list_ids()}


def map_unlisted(assembly):
    return {one.key: one.reason for one in assembly.unlisted}


def test_what_an_entry_takes_is_listed_in_natural_order():
    assembly = build(candidate(host("p1"), "x10"), candidate(host("p2"), "x9", numa=(0,)), specs=(spec(A), spec(B)))
    assert [device.id for device in assembly.lists[A].devices] == ["x9", "x10"]
    assert assembly.lists[B] == DeviceList(B)
    assert (assembly.unlisted, assembly.awaits_delivery, assembly.next_at) == ((), False, None)


def test_a_device_is_what_its_candidate_says():
    found = candidate(host("p1"), "x", "y", numa=(1,), nodes=(node(),), fault="no driver")
    assert build(found).lists[A].devices == (
        Device(
            "x", "p1", "key p1", Health.UNHEALTHY, Reason.from_text("no driver"), (1,), None, 0, (node(),), None, "1"
        ),
    )


def test_an_equal_list_is_the_same_object_and_so_is_an_equal_device():
    first = build(candidate(host("p1"), "x"), candidate(host("p2"), "y"))
    again = build(candidate(host("p1"), "x"), candidate(host("p2"), "y"), before=first.lists.values(), now=5.0)
    assert again.lists[A] is first.lists[A]
    changed = build(candidate(host("p1"), "x", fault="f"), candidate(host("p2"), "y"), before=first.lists.values())
    assert changed.lists[A].devices[1] is first.lists[A].devices[1]


# Identity


def test_a_device_keeps_its_id_while_it_is_in_its_place():
    before = snapshot(make_listed("x@1", "p1"))
    assert list(format_ids(build(candidate(host("p1"), "x", "x@1"), before=[before]))) == ["x@1"]
    assert list(
        format_ids(build(candidate(host("p1", key="other", instance_id="2"), "x", "x@1"), before=[before]))
    ) == ["x@1"]


def test_a_device_is_as_it_is_now():
    before = build(candidate(host("p1"), "x"))
    for changed in (
        candidate(host("p1", instance_id="2"), "x"),
        candidate(host("p1", key="other"), "x"),
        replace(candidate(host("p1"), "x"), device=replace(host("p1"), location="p9")),
        candidate(host("p1"), "x", numa=(1,)),
        candidate(host("p1"), "x", nodes=(node(),)),
        candidate(host("p1"), "x", fault="f"),
    ):
        after = build(changed, before=before.lists.values())
        assert after.lists[A] == build(changed).lists[A]


def test_its_id_in_its_place_goes_before_what_others_want():
    before = snapshot(make_listed("x", "p1"))
    back, new = candidate(host("p1", instance_id="2"), "x", "x@1"), candidate(host("p0"), "x", "x@0")
    assert format_ids(build(back, new, before=[before])) == {"x": "", "x@0": ""}


def test_of_several_that_were_in_a_place_the_very_thing_that_is_there_has_it():
    """As after a restart, which forgets what was gone."""
    before = snapshot(make_listed("x", "p1", instance_id="0", key="old"), make_listed("x@1", "p1"))
    assembly = build(candidate(host("p1"), "x", "x@1"), before=[before])
    assert format_ids(assembly) == {"x": "absent: other hardware is in its place", "x@1": ""}


def test_of_several_that_were_in_a_place_the_last_to_go_has_it_when_it_is_back():
    for one, other in ((1.0, 5.0), (5.0, 1.0)):
        before = snapshot(
            make_listed("x", "p1", instance_id="8", absent_since=one, health=Health.UNHEALTHY, reason="absent"),
            make_listed("x@1", "p1", instance_id="9", absent_since=other, health=Health.UNHEALTHY, reason="absent"),
        )
        assembly = build(candidate(host("p1", instance_id="2"), "x", "x@1"), before=[before], now=9.0)
        assert [name for name, reason in format_ids(assembly).items() if not reason] == ["x@1" if other > one else "x"]
        assert len(format_ids(assembly)) == 2


def test_of_two_in_one_place_neither_is_chosen_by_the_order_of_discovery():
    before = snapshot(make_listed("x", "p1", key="old", instance_id="0"))
    found = (candidate(host("p1", key="k1"), "x", "x1"), candidate(host("p1", key="k2"), "x", "x2"))
    assert build(*found, before=[before]) == build(*found[::-1], before=[before])


def test_two_new_ones_that_come_out_equal_both_take_the_next():
    found = (candidate(host("p1"), "x", "x@1"), candidate(host("p2"), "x", "x@2"), candidate(host("p3"), "y"))
    for order in (found, found[::-1]):
        assert list(format_ids(build(*order))) == ["x@1", "x@2", "y"]


def test_a_new_one_that_equals_a_listed_one_takes_the_next():
    before = snapshot(make_listed("x", "p2"))
    found = (candidate(host("p1"), "x", "x@1"), candidate(host("p2"), "x", "x@2"))
    assert list(format_ids(build(*found, before=[before]))) == ["x", "x@1"]


def test_two_equal_ones_with_no_alternative_the_first_by_place_is_listed():
    assembly = build(candidate(host("p10"), "x"), candidate(host("p9"), "x"))
    assert [device.location for device in assembly.lists[A].devices] == ["p9"]
    assert map_unlisted(assembly) == {"key p10": f"id x is in use by {A}"}


def test_two_candidates_of_one_place_are_two_devices():
    first, second = host("p1", key="k1"), host("p1", key="k2")
    assembly = build(candidate(first, "x"), candidate(second, "y"))
    renumbered = (candidate(replace(first, key="k3"), "x"), candidate(replace(second, key="k1"), "y"))
    assert list(format_ids(build(*renumbered, before=assembly.lists.values()))) == ["x", "y"]


def test_a_device_without_an_id_is_not_listed_and_says_why():
    assembly = build(candidate(host("p1"), missing_id_reason="serial: no such file"))
    assert format_ids(assembly) == {}
    assert map_unlisted(assembly) == {"key p1": "it has no id: serial: no such file"}


UNSURE = {"missing_id_reason": "uuid: EIO", "possible_ids": (parse("GPU-*"),)}


@pytest.mark.parametrize("ids", [(), ("3b:00.0",)])
def test_a_listed_device_whose_word_is_absent_keeps_its_id_unhealthy(ids):
    before = snapshot(make_listed("GPU-1", "p1"))
    first = build(candidate(host("p1"), *ids, **UNSURE), before=[before], now=5.0)
    assert format_ids(first) == {"GPU-1": "it has no id now: uuid: EIO"}
    assert map_unlisted(first) == {"key p1": "it may be GPU-1: uuid: EIO"}
    back = build(candidate(host("p1"), "GPU-1", *ids), before=first.lists.values(), now=9.0)
    assert format_ids(back) == {"GPU-1": ""}
    late = build(candidate(host("p1"), *ids, **UNSURE), before=first.lists.values(), now=5.0 + FORGET_SECONDS)
    assert list(format_ids(late)) == list(ids)


def test_a_device_that_may_not_be_the_listed_one_is_new_at_once():
    before = snapshot(make_listed("04:A1", "p1"))
    found = candidate(
        host("p1", instance_id="2"), "05@p1", missing_id_reason="no serial", possible_ids=(parse("05:*"),)
    )
    assert format_ids(build(found, before=[before])) == {"04:A1": "absent: other hardware is in its place", "05@p1": ""}


def test_one_in_doubt_joins_when_the_device_it_could_be_turns_up_elsewhere():
    before = snapshot(make_listed("GPU-1", "p2"))
    doubtful = candidate(host("p2", instance_id="2"), "at-p2", **UNSURE)
    for moved in ("p1", "p3"):
        assert format_ids(build(doubtful, candidate(host(moved), "GPU-1"), before=[before])) == {
            "GPU-1": "",
            "at-p2": "",
        }


def test_other_hardware_in_a_place_is_another_device():
    before = snapshot(make_listed("x", "p1"))
    found = candidate(host("p1", instance_id="2"), "y")
    assembly = build(found, before=[before], held=["x"], now=5.0)
    assert format_ids(assembly) == {"x": "absent: other hardware is in its place", "y": ""}


def test_the_same_thing_under_another_id_is_listed_once():
    before = snapshot(make_listed("x", "p1"))
    found = candidate(host("p1"), "y")
    assert format_ids(build(found, before=[before])) == {"y": ""}
    held = build(found, before=[before], held=["x"])
    assert format_ids(held) == {"x": "no longer offered: its id is y now"}
    assert map_unlisted(held) == {"key p1": f"a pod holds it as {A} x"}


def test_two_that_change_places_keep_their_ids():
    before = snapshot(make_listed("x", "p1"), make_listed("y", "p2"))
    found = (candidate(host("p1", instance_id="2"), "y"), candidate(host("p2", instance_id="2"), "x"))
    for held in (NONE, ["x"], ["x", "y"]):
        assembly = build(*found, before=[before], held=held)
        assert format_ids(assembly) == {"x": "", "y": ""}
        assert [device.location for device in assembly.lists[A].devices] == ["p2", "p1"]


# Absence


def test_what_vanishes_is_unhealthy_under_its_id_and_topology_until_it_is_forgotten():
    before = snapshot(make_listed("x", "p1", numa=(1,)), make_listed("y", "p2", numa=(0,)))
    stays = candidate(host("p2"), "y", numa=(0,))
    gone = build(stays, before=[before], now=5.0)
    assert format_ids(gone) == {"x": "absent", "y": ""}
    assert gone.lists[A].devices[0].numa == (1,)
    assert gone.next_at == 5.0 + FORGET_SECONDS
    later = build(stays, before=gone.lists.values(), now=gone.next_at - 0.001)
    assert later.lists[A] is gone.lists[A]
    over = build(stays, before=gone.lists.values(), now=gone.next_at)
    assert format_ids(over) == {"y": ""}
    assert over.next_at is None


def test_what_a_pod_may_hold_is_never_forgotten():
    gone = build(before=[snapshot(make_listed("x"))], held=["x"], now=5.0)
    assert gone.next_at is None
    late = build(before=gone.lists.values(), held=["x"], now=5.0 + 100 * FORGET_SECONDS)
    assert late.lists[A] is gone.lists[A]
    assert format_ids(build(before=late.lists.values(), now=5.0 + 100 * FORGET_SECONDS)) == {}


def test_what_comes_back_is_healthy_under_its_id():
    gone = build(before=[snapshot(make_listed("x"))], now=5.0)
    back = build(candidate(host("x", instance_id="2"), "x"), before=gone.lists.values(), now=6.0)
    assert format_ids(back) == {"x": ""}
    assert back.lists[A].devices[0].absent_since is None


@pytest.mark.parametrize("held", [NONE, ["x"]])
def test_the_same_hardware_elsewhere_takes_its_id_along(held):
    gone = build(before=[snapshot(make_listed("x", "p1"))], held=held, now=5.0)
    assembly = build(candidate(host("p2"), "x", "x@2"), before=gone.lists.values(), held=held, now=6.0)
    assert format_ids(assembly) == {"x": ""}
    assert assembly.lists[A].devices[0].location == "p2"


def test_at_start_what_is_remembered_and_not_seen_is_absent():
    remembered = Device("x", "p1", "key p1", Health.UNHEALTHY, "not seen since the agent started")
    assert format_ids(build(before=[snapshot(remembered)])) == {"x": "absent"}
    assert format_ids(build(candidate(host("p1"), "x"), before=[snapshot(remembered)])) == {"x": ""}


# What is offered no more


def test_what_an_entry_no_longer_takes_leaves_at_once_unless_it_is_held():
    before = snapshot(make_listed("x"), make_listed("y"))
    assembly = build(before=[before], held=["x"], turned_down=(host("x"), host("y")))
    assert format_ids(assembly) == {"x": 'no longer offered: match.vendor = "10de", here 8086'}
    released = build(before=assembly.lists.values(), turned_down=(host("x"), host("y")))
    assert format_ids(released) == {}


def test_what_another_entry_takes_leaves_one_list_before_it_joins_the_other():
    specs = (spec(A), spec(B))
    before = snapshot(make_listed("x"))
    found = candidate(host("x"), "x", resource=B)
    leaves = build(found, specs=specs, before=[before])
    assert (format_ids(leaves), format_ids(leaves, B), leaves.awaits_delivery) == ({}, {}, True)
    assert map_unlisted(leaves) == {"key x": f"it leaves {A} first"}
    joins = build(found, specs=specs, before=leaves.lists.values())
    assert (format_ids(joins), format_ids(joins, B), joins.awaits_delivery) == ({}, {"x": ""}, False)


def test_what_a_pod_holds_stays_where_it_is():
    specs = (spec(B), spec(A))
    found = candidate(host("x"), "y", resource=B)
    assembly = build(found, specs=specs, before=[snapshot(make_listed("x"))], held=["x"])
    assert format_ids(assembly) == {"x": f"no longer offered: it is {B} now"}
    assert (format_ids(assembly, B), assembly.awaits_delivery) == ({}, False)
    assert map_unlisted(assembly) == {"key x": f"a pod holds it as {A} x"}


def test_other_hardware_in_its_place_does_not_wait_for_it():
    specs = (spec(A), spec(B))
    found = candidate(host("x", instance_id="2"), "y", resource=B)
    assembly = build(found, specs=specs, before=[snapshot(make_listed("x"))], held=["x"])
    assert format_ids(assembly) == {"x": "absent"}
    assert (format_ids(assembly, B), assembly.awaits_delivery) == ({"y": ""}, False)


def test_an_absent_device_that_nobody_holds_lets_its_id_go_to_another_entry():
    specs = (spec(A), spec(B))
    gone = build(specs=specs, before=[snapshot(make_listed("x", "p1"))])
    found = candidate(host("p2"), "x", resource=B)
    leaves = build(found, specs=specs, before=gone.lists.values())
    assert (format_ids(leaves), format_ids(leaves, B), leaves.awaits_delivery) == ({}, {}, True)
    joins = build(found, specs=specs, before=leaves.lists.values())
    assert (format_ids(joins, B), joins.awaits_delivery) == ({"x": ""}, False)
    held = build(found, specs=specs, before=gone.lists.values(), held=["x"])
    assert (format_ids(held), format_ids(held, B), held.awaits_delivery) == ({"x": "absent"}, {}, False)
    assert map_unlisted(held) == {"key p2": f"id x is in use by {A}"}


def test_an_id_of_another_resource_is_never_dodged_by_the_next_alternative():
    specs = (spec(A), spec(B))
    found = (candidate(host("p1"), "x"), candidate(host("p2"), "x", "x@2", resource=B))
    assembly = build(*found, specs=specs)
    assert (format_ids(assembly), format_ids(assembly, B)) == ({"x": ""}, {})
    assert map_unlisted(assembly) == {"key p2": f"id x is in use by {A}"}


def test_the_first_in_file_order_gets_an_id_that_two_new_ones_want():
    found = (candidate(host("p1"), "x"), candidate(host("p2"), "x", resource=B))
    assembly = build(*found, specs=(spec(B), spec(A)))
    assert (format_ids(assembly), format_ids(assembly, B)) == ({}, {"x": ""})


def test_a_removed_resource_retires():
    before = snapshot(make_listed("x"), make_listed("y"))
    found = candidate(host("x"), "x", resource=B)
    assembly = build(found, specs=(spec(B),), before=[before], held=["x"])
    assert format_ids(assembly) == {"x": RETIRED_REASON}
    assert format_ids(assembly, B) == {}
    empty = build(found, specs=(spec(B),), before=assembly.lists.values())
    assert (format_ids(empty), empty.awaits_delivery) == ({}, True)
    assert format_ids(build(found, specs=(spec(B),), before=empty.lists.values()), B) == {"x": ""}


def test_a_retired_device_is_not_gone_but_taken_out():
    gone = build(before=[snapshot(make_listed("x"))], held=["x"], now=5.0)
    assembly = build(specs=(), before=gone.lists.values(), held=["x"], now=6.0)
    assert assembly.lists[A].devices[0].absent_since is None
    assert format_ids(assembly) == {"x": RETIRED_REASON}


def test_what_another_resource_holds_is_not_offered_by_what_was_in_its_place_before():
    """As after a restart, which forgets what was gone: the list of A still has what was there before B's device."""
    specs = (spec(A), spec(B))
    before = [snapshot(make_listed("x", "p1", instance_id="0")), snapshot(make_listed("y", "p1"), resource=B)]
    assembly = build(candidate(host("p1"), "x"), specs=specs, before=before, held=["y"])
    assert format_ids(assembly) == {"x": "absent"}
    assert format_ids(assembly, B) == {"y": f"no longer offered: it is {A} now"}
    assert map_unlisted(assembly) == {"key p1": f"a pod holds it as {B} y"}


# Shares


def shares(count, first=0):
    return [f"x::{n}" for n in range(first, count)]


def test_shares_are_listed():
    assert list(format_ids(build(candidate(host("p1"), "x"), specs=(spec(A, shares=3),)))) == shares(3)


@pytest.mark.parametrize(
    ("old", "new", "held", "expected"),
    [
        (10, 4, [], shares(4)),
        (10, 4, ["x::2"], shares(4)),
        (10, 4, ["x::7"], shares(8)),
        (4, 10, ["x::3"], shares(10)),
        (None, 3, [], shares(3)),
        (None, 3, ["x"], ["x"]),
        (3, None, [], ["x"]),
        (3, None, ["x::1"], shares(2)),
        (1, None, ["x::0"], shares(1)),
    ],
)
def test_the_number_of_shares_changes(old, new, held, expected):
    found = candidate(host("p1"), "x")
    before = build(found, specs=(spec(A, shares=old),))
    after = build(found, specs=(spec(A, shares=new),), before=before.lists.values(), held=held)
    assert list(format_ids(after)) == expected
    offered = {name for name, reason in format_ids(after).items() if not reason}
    blocked = bool(held) and (old is None or new is None)
    whole = ["x"] if new is None else shares(new)
    assert offered == (set() if blocked else set(whole))
    fewer = f"no longer offered: its device has {new} shares now"
    assert {reason for name, reason in format_ids(after).items() if name not in offered} <= {
        RETIRED_REASON if blocked else fewer
    }
    assert map_unlisted(after) == ({"key p1": f"a pod holds it as {A} x"} if blocked else {})
    released = build(found, specs=(spec(A, shares=new),), before=after.lists.values())
    assert format_ids(released) == dict.fromkeys(whole, "")


def test_a_new_form_keeps_the_id():
    before = snapshot(make_listed("x@1", "p1"))
    after = build(candidate(host("p1"), "x", "x@1"), specs=(spec(A, shares=2),), before=[before])
    assert list(format_ids(after)) == ["x@1::0", "x@1::1"]
    again = build(candidate(host("p1"), "x", "x@1"), before=after.lists.values())
    assert list(format_ids(again)) == ["x@1"]


def test_a_new_form_keeps_the_id_of_the_last_in_its_place():
    gone = make_listed("x", "p1", instance_id="0", absent_since=1.0, health=Health.UNHEALTHY, reason="absent")
    before = snapshot(gone, make_listed("x@1", "p1"))
    after = build(candidate(host("p1"), "x", "x@1"), specs=(spec(A, shares=2),), before=[before])
    assert list(format_ids(after)) == ["x", "x@1::0", "x@1::1"]
    assert format_ids(after)["x"] == "absent: other hardware is in its place"


def test_upper_shares_leave_when_only_lower_ones_are_held():
    before = snapshot(make_listed("x", shares=4), make_listed("x", shares=8, first_share=4, health=Health.UNHEALTHY))
    after = build(candidate(host("x"), "x"), specs=(spec(A, shares=4),), before=[before], held=["x::2"])
    assert format_ids(after) == dict.fromkeys(shares(4), "")


def test_a_new_form_takes_no_id_that_another_resource_has():
    specs = (spec(A, shares=2), spec(B, shares=2))
    before = [snapshot(make_listed("x", "p1")), snapshot(make_listed("x", "p2", shares=2), resource=B)]
    found = (candidate(host("p1"), "x"), candidate(host("p2"), "x", resource=B))
    assembly = build(*found, specs=specs, before=before)
    assert (format_ids(assembly), format_ids(assembly, B)) == ({}, dict.fromkeys(shares(2), ""))
    assert map_unlisted(assembly) == {"key p1": f"id x is in use by {B}"}


def test_held_shares_outlast_any_number_of_changes_and_never_twice():
    found = candidate(host("p1"), "x")
    snapshots = build(found, specs=(spec(A, shares=10),)).lists
    for count in (4, 6, 2, 10, 3, 1, 8):
        assembly = build(found, specs=(spec(A, shares=count),), before=snapshots.values(), held=["x::7"])
        snapshots = assembly.lists
        names = [name for device in snapshots[A].devices for name in device.list_ids()]
        assert len(names) == len(set(names))
        assert "x::7" in names
        assert [name for name, reason in format_ids(assembly).items() if not reason] == shares(count)


def test_upper_shares_that_are_held_survive_absence_and_return():
    found = candidate(host("p1"), "x")
    few = (spec(A, shares=4),)
    shrunk = build(found, specs=few, before=build(found, specs=(spec(A, shares=10),)).lists.values(), held=["x::7"])
    gone = build(specs=few, before=shrunk.lists.values(), held=["x::7"])
    assert list(format_ids(gone)) == shares(8)
    late = build(specs=few, before=gone.lists.values(), held=["x::7"], now=10 * FORGET_SECONDS)
    assert list(format_ids(late)) == shares(8)
    many = build(specs=(spec(A, shares=10),), before=late.lists.values(), held=["x::7"])
    assert set(format_ids(many)) >= {"x::7"}
    moved = build(candidate(host("p2"), "x"), specs=few, before=late.lists.values(), held=["x::7"])
    assert format_ids(moved) == dict.fromkeys(shares(4), "") | dict.fromkeys(shares(8, 4), RETIRED_REASON)


def test_an_absent_device_keeps_its_shares_until_it_is_back():
    """How many it has now may be for the device to say."""
    before = build(candidate(host("p1"), "x"), specs=(spec(A, shares=10),)).lists.values()
    gone = build(specs=(spec(A, shares=4),), before=before)
    assert list(format_ids(gone)) == shares(10)
    for held, expected in (((), shares(4)), (["x::5"], shares(6))):
        back = build(
            candidate(host("p1", instance_id="2"), "x"),
            specs=(spec(A, shares=4),),
            before=gone.lists.values(),
            held=held,
        )
        assert list(format_ids(back)) == expected


def test_a_held_share_of_what_is_offered_no_more_keeps_those_below_it():
    before = snapshot(make_listed("x", shares=5))
    entries = (spec(A, shares=5),)
    assert list(format_ids(build(specs=entries, before=[before], held=["x::1"], turned_down=(host("x"),)))) == shares(2)
    assert list(format_ids(build(specs=(), before=[before], held=["x::1", "x::9"]))) == shares(2)


# The list as a whole


def test_all_have_topology_or_none():
    both = (candidate(host("p1"), "x", numa=(0,)), candidate(host("p2"), "y", numa=(1,)))
    first = build(*both)
    assert [device.numa for device in first.lists[A].devices] == [(0,), (1,)]
    mixed = (*both, candidate(host("p3"), "z"))
    second = build(*mixed, before=first.lists.values())
    assert [device.numa for device in second.lists[A].devices] == [(), (), ()]
    third = build(*mixed, before=second.lists.values())
    assert third.lists[A] is second.lists[A]
    faulty = (replace(mixed[0], unhealthy_reason="f"), *mixed[1:])
    fourth = build(*faulty, before=third.lists.values())
    pairs = zip(fourth.lists[A].devices, third.lists[A].devices, strict=True)
    assert [new is old for new, old in pairs] == [False, True, True]
    assert [device.numa for device in build(*both).lists[A].devices] == [(0,), (1,)]


def wire_bytes(assembly):
    return sum(2 + 2 + len(name) + 2 + 9 for name in format_ids(assembly))


def test_a_list_that_would_be_too_long_for_the_kubelet_is_cut_and_says_so():
    found = [candidate(host(f"p{n}"), f"{n:02}" + "x" * 40) for n in range(20)]
    assembly = build(*found, specs=(spec(A, shares=5000),))
    assert 0 < len(assembly.unlisted) < 20
    assert set(map_unlisted(assembly).values()) == {"the kubelet's list is full (4 MiB)"}
    assert MAX_LIST_BYTES * 0.9 < wire_bytes(assembly) <= MAX_LIST_BYTES


def test_what_pods_hold_is_in_a_full_list_before_all_else():
    found = [candidate(host(f"p{n}"), f"{n:02}" + "x" * 40) for n in range(20)]
    last = f"19{'x' * 40}"
    before = build(*found, specs=(spec(A, shares=10),))
    assembly = build(*found, specs=(spec(A, shares=5000),), before=before.lists.values(), held=[f"{last}::7"])
    kept = [name for name in format_ids(assembly) if name.startswith(last)]
    assert kept == [f"{last}::{n}" for n in range(8)]
    assert wire_bytes(assembly) <= MAX_LIST_BYTES


def test_ten_thousand_come_and_one_goes():
    found = [candidate(host(f"p{n}"), f"x{n}") for n in range(10_000)]
    first = build(*found)
    assert [device.id for device in first.lists[A].devices] == [f"x{n}" for n in range(10_000)]
    second = build(*found[:5000], *found[5001:], before=first.lists.values())
    pairs = zip(first.lists[A].devices, second.lists[A].devices, strict=True)
    assert [old.id for old, new in pairs if old is not new] == ["x5000"]
