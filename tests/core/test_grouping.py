from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.entry.group import Grouping, GroupWord, compute_group_keys
from agent.core.inventory.device import HostDevice
from agent.core.inventory.grouping import GroupMembership, Groups, build_groups
from agent.core.language.value import Absent, ValueType
from tests.core.builders import clause

TOGETHER = Grouping((GroupWord("serial", ValueType.TEXT),))
CLAIMING = Grouping((GroupWord("iommu.group", ValueType.INT),), includes_unmatched=True)
PARTS = Grouping(member_clauses={"dongle": clause(), "programmer": clause()})


@dataclass(frozen=True)
class Judged:
    """What `gather` asks of a sighting."""

    taking_entry: int | None = None
    memberships: dict = field(default_factory=dict)
    is_undecided: bool = False


def host(name):
    return HostDevice("pci", name, name, name)


def machine(entries, **devices):
    """Devices by name: the entry that takes it, and by entry what ties it; `None` for a word that is absent."""
    made = {}
    for name, (stopped, *said) in devices.items():
        tied = {
            entry: GroupMembership(host(name), tuple((0, item) for item in items))
            for entry, items in zip(entries, said, strict=False)
        }
        made[name] = Judged(stopped, tied)
    return made


def groups(groupings, now):
    """Members of each group, those that only came along in brackets."""
    found, _ = build_groups(groupings, now, Groups(), {}, now)
    unique = {id(group): group for group in found.groups.values()}
    return sorted(
        (group.entry, *(device.name if device in group.matched_members else [device.name] for device in group.members))
        for group in unique.values()
    )


@pytest.mark.parametrize(
    ("devices", "expected"),
    [
        ({"a": (0, "1"), "b": (0, "1"), "c": (0, "2")}, [(0, "a", "b"), (0, "c")]),
        ({"a": (0, ""), "b": (0, "")}, [(0, "a"), (0, "b")]),  # absent: alone
        ({"a": (0, "12"), "b": (0, "23"), "c": (0, "3")}, [(0, "a", "b", "c")]),  # however far it goes on
        ({"a10": (0, "1"), "a9": (0, "1")}, [(0, "a9", "a10")]),
        ({"a": (None, "1"), "b": (0, "1")}, [(0, "b")]),
        ({"a": (0, "12"), "b": (None,), "c": (0, "3")}, [(0, "a"), (0, "c")]),
    ],
)
def test_those_that_are_equal_are_together(devices, expected):
    assert groups({0: TOGETHER}, machine([0], **devices)) == expected


def test_what_does_not_match_comes_along_where_all_is_claimed_and_ties_others():
    now = machine([0], a=(0, "1"), b=(None, "12"), c=(1, "2"), d=(None, "3"))
    assert groups({0: CLAIMING}, now) == [(0, "a", ["b"], ["c"])]


def test_what_an_earlier_entry_has_stays_there():
    now = machine([1], a=(1, "1"), b=(0, "1"), c=(2, "1"))
    found, _ = build_groups({1: CLAIMING}, now, Groups(), {}, now)
    group = found.groups["a"]
    assert group.members == (host("a"), host("c"))
    assert group.foreign_members == (host("b"),)
    assert "b" not in found.groups


def test_what_an_earlier_entry_may_have_yet_is_not_taken_either():
    now = {**machine([1], a=(1, "1")), "b": Judged(0, {1: GroupMembership(host("b"), ((0, "1"),))}, is_undecided=True)}
    assert build_groups({1: CLAIMING}, now, Groups(), {}, now)[0].groups["a"].foreign_members == (host("b"),)


def test_what_is_undecided_makes_no_group_but_comes_along():
    now = {**machine([0], a=(0, "1")), "b": Judged(0, {0: GroupMembership(host("b"), ((0, "1"),))}, is_undecided=True)}
    assert groups({0: CLAIMING}, now) == [(0, "a", ["b"])]
    del now["a"]
    assert groups({0: CLAIMING}, now) == []


def test_an_earlier_claim_comes_before_a_later_match_and_no_group_goes_through_it():
    now = machine([0, 1], a=(0, "1", ""), b=(1, "1", "xy"), c=(1, "", "x"), d=(1, "", "y"))
    assert groups({0: CLAIMING, 1: TOGETHER}, now) == [(0, "a", ["b"]), (1, "c"), (1, "d")]
    assert groups({1: TOGETHER}, now) == [(1, "b", "c", "d")]


def test_parts_are_found_by_name():
    hub = ((0, "1-1"),)
    now = {
        "a": Judged(0, {0: GroupMembership(host("a"), hub, "dongle")}),
        "b": Judged(0, {0: GroupMembership(host("b"), hub, "programmer")}),
        "c": Judged(0, {0: GroupMembership(host("c"), hub, "dongle")}),
    }
    group = build_groups({0: PARTS}, now, Groups(), {}, now)[0].groups["b"]
    assert group.named_members == {"dongle": (host("a"), host("c")), "programmer": (host("b"),)}


@pytest.mark.parametrize(
    ("kind", "said", "same"),
    [
        (ValueType.HEX, ("15b3", "015b3"), True),
        (ValueType.TEXT, ("15b3", "015b3"), False),
        (ValueType.INT, (1, 1), True),
        (ValueType.PCI, ("0000:3b:00.0", "0000:3b:00.1"), False),
    ],
)
def test_equal_is_by_the_type(kind, said, same):
    grouping = Grouping((GroupWord("x", kind),))
    first, second = (compute_group_keys(grouping, lambda _, value=value: value) for value in said)
    assert (first == second) is same


def test_equal_is_within_one_word_and_an_absent_one_ties_nobody():
    grouping = Grouping((GroupWord("x", ValueType.TEXT), GroupWord("y", ValueType.TEXT)))
    said = {"x": Absent("gone"), "y": "1"}
    assert compute_group_keys(grouping, said.get) == ((1, "1"),)
    assert compute_group_keys(grouping, {"x": "1", "y": "1"}.get) == ((0, "1"), (1, "1"))
    assert (
        compute_group_keys(Grouping(member_clauses={}), said.get)
        == compute_group_keys(Grouping(member_clauses={}), {}.get)
        != ()
    )


# Any sequence of changes ends where a look at everything does.

NAMES = "abcdef"
ENTRIES = {0: CLAIMING, 1: TOGETHER, 2: CLAIMING}


@st.composite
def worlds(draw):
    now = {}
    for name in draw(st.sets(st.sampled_from(NAMES))):
        stopped = draw(st.sampled_from([None, 0, 1, 2, 3]))
        said = {entry: draw(st.lists(st.sampled_from("xyz"), max_size=2, unique=True)) for entry in ENTRIES}
        tied = {
            entry: GroupMembership(host(name), tuple((0, item) for item in items))
            for entry, items in said.items()
            if ENTRIES[entry].includes_unmatched or stopped == entry
        }
        now[name] = Judged(stopped, tied, stopped is not None and draw(st.booleans()))
    return now


@given(st.lists(worlds(), min_size=1, max_size=4), st.sets(st.sampled_from(NAMES)))
def test_what_changed_is_enough_to_know(machines, more):
    seen, before = Groups(), {}
    for now in machines:
        doubtful = {name for name in NAMES if before.get(name) != now.get(name)} | (more & {*now, *before})
        earlier = seen
        seen, renewed = build_groups(ENTRIES, now, earlier, before, doubtful)
        full, _ = build_groups(ENTRIES, now, Groups(), {}, now)
        assert seen == full
        different = {name for name in NAMES if seen.groups.get(name) is not earlier.groups.get(name)}
        assert different <= renewed
        before = now
    assert earlier_untouched(seen, before)


def earlier_untouched(seen, now):
    """Whether nothing is looked at again for nothing."""
    again, renewed = build_groups(ENTRIES, now, seen, now, set())
    return again == seen and not renewed


@given(worlds())
def test_each_host_device_is_in_one_group_and_in_none_that_another_entry_has(now):
    found, _ = build_groups(ENTRIES, now, Groups(), {}, now)
    for key, group in found.groups.items():
        assert key in {member.key for member in group.members}
        assert now[key].taking_entry is None or now[key].taking_entry >= group.entry
        assert all(found.groups[member.key] is group for member in group.members)
        assert group.matched_members
        assert all(now[device.key].taking_entry == group.entry for device in group.matched_members)
