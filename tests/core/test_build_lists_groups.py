"""The life of devices that are several host devices each."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.entry.group import Grouping, GroupWord
from agent.core.inventory.device import Health, HostDevice
from agent.core.inventory.dirty_set import DirtySet
from agent.core.inventory.inventory import update_inventory
from agent.core.inventory.listing import Listing
from agent.core.language.template import parse
from agent.core.language.value import ValueType
from agent.core.lists.build_lists import build_lists
from agent.core.struct import replace
from tests.core.builders import PCI, Facts, clause, line, spec

A, B = "example.com/a", "example.com/b"
BY = Grouping((GroupWord("group", ValueType.INT),), digest="by")
CLAIMS = Grouping((GroupWord("group", ValueType.INT),), includes_unmatched=True, digest="claims")
PARTS = Grouping(
    (GroupWord("group", ValueType.INT),),
    member_clauses={"dongle": clause(line("vendor", "d")), "programmer": clause(line("vendor", "p"))},
    digest="parts",
)
VFIO = clause(line("driver", "vfio"))
ID = (parse("id-{serial}"),)


class Life:
    """Lists as they come to be, one look after the other."""

    def __init__(self, *entries):
        self.entries = entries
        self.lists = {}
        self.settled = {}
        self.fanned = {}
        self.now = 0.0
        self.unlisted = ()
        self.facts = {}

    def seen(self, *, held=(), entries=None, **facts):
        """The list of the first entry after a look at these host devices: id and reason."""
        self.entries = entries or self.entries
        self.now += 1.0
        self.facts = facts
        hosts = tuple(
            HostDevice("pci", name, name, name, instance_id=str(said.get("stamp", 1))) for name, said in facts.items()
        )
        now = update_inventory(self.entries, Listing({PCI: hosts}), Facts(facts))
        for _ in range(3):
            known = {"unchanged_lists": self.settled, "generated_names": self.fanned}
            made = build_lists(now, self.entries, frozenset(held), self.lists, self.now, **known)
            self.lists, self.settled, self.unlisted = made.lists, made.unchanged_lists, made.unlisted
            self.fanned = made.generated_names
            if not made.awaits_delivery:
                break
        return self.told(self.entries[0].name)

    def told(self, resource):
        return (
            {device.id: str(device.reason) for device in self.lists[resource].devices} if resource in self.lists else {}
        )

    @property
    def waiting(self):
        return [one.reason for one in self.unlisted]


def make_group_facts(**said):
    """Host devices in group 1, all bound to vfio, named by their serials."""
    return {name: {"group": 1, "driver": "vfio", "serial": name.upper(), **more} for name, more in said.items()}


def test_a_group_is_one_device():
    life = Life(spec(group=BY, match=VFIO, id=ID))
    assert life.seen(**make_group_facts(a={}, b={}, c={"group": 2})) == {"id-A": "", "id-C": ""}
    (first, _) = life.lists[A].devices
    assert [member.name for member in first.members] == ["a", "b"]


def test_one_that_loses_a_member_keeps_its_id_and_its_numa_and_says_what_is_lost():
    life = Life(spec(group=BY, match=VFIO, id=ID))
    life.seen(**make_group_facts(a={"numa": 0}, b={"numa": 0}, c={}))
    assert life.seen(**make_group_facts(a={"numa": 0}, c={})) == {"id-A": "lost b"}
    assert life.seen(**make_group_facts(a={"numa": 0})) == {"id-A": "lost b, c"}
    assert life.seen(**make_group_facts(a={"numa": 0}, b={"numa": 0}, c={})) == {"id-A": ""}


@pytest.mark.parametrize("gone", [{}, {"a": {"driver": "nvidia"}}])
def test_the_id_is_kept_when_the_member_that_gave_it_goes(gone):
    life = Life(spec(group=BY, match=VFIO, id=ID))
    life.seen(**make_group_facts(a={}, b={}))
    assert life.seen(**make_group_facts(b={}, **gone)) == {"id-A": "lost a"}
    assert life.seen(**make_group_facts(b={}, **gone)) == {"id-A": "lost a"}
    assert life.seen(**make_group_facts(a={}, b={})) == {"id-A": ""}


def test_a_member_that_comes_before_the_one_that_gave_the_id_changes_nothing():
    life = Life(spec(group=BY, match=VFIO, id=ID))
    life.seen(**make_group_facts(b={}, c={}))
    assert life.seen(**make_group_facts(a={}, b={}, c={})) == {"id-B": ""}
    assert life.lists[A].devices[0].id_location == "b"
    assert life.seen(**make_group_facts(a={}, c={})) == {"id-B": "lost b"}
    assert life.seen(**make_group_facts(a={}, b={}, c={})) == {"id-B": ""}


def test_other_hardware_in_the_place_of_the_member_that_gave_the_id_is_another_device():
    life = Life(spec(group=BY, match=VFIO, id=ID))
    life.seen(**make_group_facts(a={}, b={}))
    assert life.seen(**make_group_facts(a={"serial": "Z", "stamp": 2}, b={})) == {
        "id-A": "absent: other hardware is in its place",
        "id-Z": "",
    }


def test_what_a_pod_holds_is_in_no_other_device():
    life = Life(spec(group=BY, match=VFIO, id=ID))
    life.seen(**make_group_facts(a={}, b={}))
    other = make_group_facts(a={"serial": "Z"}, b={})
    told = life.seen(held={"id-A"}, **other)
    assert told == {"id-A": "no longer offered: its id is id-Z now"}
    assert life.waiting == ["a pod holds it as example.com/a id-A"]
    assert life.seen(**other) == {"id-Z": ""}


def test_a_replug_of_all_keeps_the_id():
    life = Life(spec(group=BY, match=VFIO, id=ID))
    life.seen(**make_group_facts(a={}, b={}))
    assert life.seen() == {"id-A": "absent"}
    assert life.seen(**make_group_facts(a={"stamp": 2}, b={"stamp": 2})) == {"id-A": ""}
    assert life.seen() == {"id-A": "absent"}
    assert life.seen(**make_group_facts(b={"stamp": 3})) == {"id-A": "lost a"}


def test_what_came_along_is_lost_too_and_what_the_host_puts_elsewhere_is_not():
    life = Life(spec(group=CLAIMS, match=VFIO, id=ID), spec(B, match=clause(line("group", 2))))
    life.seen(**make_group_facts(a={}, b={"driver": ""}))
    assert life.seen(**make_group_facts(a={})) == {"id-A": "lost b"}
    assert life.seen(**make_group_facts(a={}, b={"driver": "", "group": 2})) == {"id-A": ""}


def test_a_changed_entry_forgets_what_it_would_not_have_missed_but_not_what_a_pod_holds():
    entry = spec(group=BY, match=VFIO, id=ID)
    narrow = replace(entry, group=replace(BY, digest="narrow"), match=clause(line("serial", "A")))
    life = Life(entry)
    life.seen(**make_group_facts(a={}, b={}))
    assert life.seen(held={"id-A"}, entries=(narrow,), **make_group_facts(a={}, b={})) == {"id-A": "lost b"}
    assert life.seen(**make_group_facts(a={}, b={})) == {"id-A": ""}


def test_an_entry_without_a_group_any_more_gives_each_when_no_pod_has_it():
    grouped = spec(group=BY, match=VFIO, id=ID)
    single = replace(grouped, group=None)
    life = Life(grouped)
    life.seen(**make_group_facts(a={}, b={}))
    assert life.seen(held={"id-A"}, entries=(single,), **make_group_facts(a={}, b={})) == {"id-A": "lost b"}
    assert life.waiting == ["a pod holds it as example.com/a id-A"]
    assert life.seen(**make_group_facts(a={}, b={})) == {"id-A": "", "id-B": ""}
    assert life.seen(held={"id-B"}, entries=(grouped,), **make_group_facts(a={}, b={})) == {
        "id-A": "a pod holds b as example.com/a id-B",
        "id-B": "no longer offered: its id is id-A now",
    }
    assert life.seen(**make_group_facts(a={}, b={})) == {"id-A": ""}


def test_a_claim_waits_for_the_pod_that_has_what_it_claims():
    later = spec(B, match=clause(line("driver", "snd")), id=ID)
    life = Life(spec(A, match=clause(line("none", "")), id=ID), later)
    facts = make_group_facts(a={}, b={"driver": "snd"})
    life.seen(**facts)
    claiming = spec(group=CLAIMS, match=VFIO, id=ID)
    assert life.seen(held={"id-B"}, entries=(claiming, later), **facts) == {}
    assert life.waiting == ["a pod holds b as example.com/b id-B"]
    assert life.told(B) == {"id-B": "no longer offered: it is example.com/a now"}
    assert life.seen(**facts) == {"id-A": ""}
    assert life.told(B) == {}


# ---------------------------------------------------------------- parts


def part(kind, **more):
    return {"group": 1, "vendor": kind, **more}


KIT = spec(group=PARTS, id=(parse("kit-{group}"),))


def test_a_kit_is_offered_when_it_was_seen_complete_once():
    life = Life(KIT)
    assert life.seen(a=part("d")) == {}
    assert life.waiting == ["there is no programmer"]
    assert life.seen(a=part("d"), b=part("p")) == {"kit-1": ""}
    assert life.seen(b=part("p")) == {"kit-1": "lost dongle (a)"}
    assert life.seen(b=part("p")) == {"kit-1": "lost dongle (a)"}
    assert life.seen() == {"kit-1": "absent"}
    assert life.seen(a=part("d")) == {"kit-1": "lost programmer (b)"}
    assert life.seen(a=part("d"), b=part("p")) == {"kit-1": ""}


def test_another_part_in_another_place_makes_it_whole_again_if_the_id_stays():
    life = Life(KIT)
    life.seen(a=part("d"), b=part("p"))
    assert life.seen(b=part("p"), c=part("d")) == {"kit-1": ""}
    assert [member.name for member in life.lists[A].devices[0].members] == ["b", "c"]
    assert life.seen(held={"kit-1"}, a=part("d"), b=part("p")) == {"kit-1": ""}


def test_two_of_a_part_are_ambiguous():
    life = Life(KIT)
    assert life.seen(a=part("d"), b=part("p"), c=part("d")) == {}
    assert life.waiting == ["a and c are both dongle"]
    life.seen(a=part("d"), b=part("p"))
    assert life.seen(a=part("d"), b=part("p"), c=part("d")) == {"kit-1": "a and c are both dongle"}
    assert life.seen(b=part("p"), c=part("d")) == {"kit-1": ""}


def test_a_part_with_another_serial_is_another_device_where_that_is_in_the_id():
    life = Life(replace(KIT, id=(parse("{dongle.serial}"),)))
    life.seen(a=part("d", serial="S1"), b=part("p"))
    assert life.seen(b=part("p"), c=part("d", serial="S2")) == {
        "S1": "absent: other hardware is in its place",
        "S2": "",
    }


def test_a_name_with_words_of_a_part_comes_with_the_first_whole_kit_and_stays():
    name = "example.com/kit-{dongle.serial}"
    life = Life(replace(KIT, name=name, name_template=parse(name)))
    life.seen(a=part("d", serial="S1"))
    assert life.lists == {}
    assert life.waiting == ["there is no programmer"]
    life.seen(a=part("d", serial="S1"), b=part("p"))
    assert life.told("example.com/kit-S1") == {"kit-1": ""}
    life.seen(b=part("p"))
    assert life.told("example.com/kit-S1") == {"kit-1": "lost dongle (a)"}
    life.seen(a=part("d", serial="S1"))
    assert life.told("example.com/kit-S1") == {"kit-1": "lost programmer (b)"}
    assert list(life.lists) == ["example.com/kit-S1"]


# ---------------------------------------------------------------- whatever happens

NAMES = "abcd"
ENTRIES = (spec(group=CLAIMS, match=VFIO, id=ID), spec(B, group=PARTS, id=(parse("kit-{group}-{serial}"),)))
SAID = st.fixed_dictionaries(
    {"group": st.integers(1, 2)},
    optional={
        "driver": st.sampled_from(["vfio", "other"]),
        "vendor": st.sampled_from("dpx"),
        "serial": st.sampled_from(["X", "Y"]),
    },
)
WORLDS = st.dictionaries(st.sampled_from(NAMES), SAID)


@given(st.lists(st.tuples(WORLDS, st.sets(st.sampled_from(["id-X", "id-Y", "kit-1-X", "kit-1-Y"]))), max_size=5))
def test_what_a_pod_may_hold_stays_listed_and_is_in_one_healthy_device(steps):
    life = Life(*ENTRIES)
    held = frozenset()
    for facts, wanted in steps:
        before = {id: reason for name in life.lists for id, reason in life.told(name).items()}  # noqa: A001
        held = {id for id in wanted if id in before} | {id for id in held if id in wanted}  # noqa: A001
        life.seen(held=held, **facts)
        devices = [device for list_ in life.lists.values() for device in list_.devices]
        assert held <= {device.id for device in devices}
        keys = [key for device in devices if device.health is Health.HEALTHY for key in device.keys]
        assert len(keys) == len(set(keys))


@given(st.lists(WORLDS, min_size=1, max_size=4))
def test_lists_of_an_event_are_those_of_a_sweep(worlds):
    """What is known of settled lists changes nothing."""
    narrow, full = Life(*ENTRIES), Life(*ENTRIES)
    before = None
    for facts in worlds:
        hosts = {name: HostDevice("pci", name, name, name, f"/sys/devices/{name}") for name in facts}
        touched = DirtySet(frozenset(f"/sys/devices/{name}" for name in NAMES))
        listing = Listing({PCI: tuple(hosts.values())})
        before = update_inventory(ENTRIES, listing, Facts(facts), before, touched)
        now = update_inventory(ENTRIES, listing, Facts(facts))
        for life, seen in ((narrow, before), (full, now)):
            life.now += 1.0
            known = life.settled if life is narrow else {}
            made = build_lists(seen, ENTRIES, frozenset(), life.lists, life.now, unchanged_lists=known)
            life.lists, life.settled = made.lists, made.unchanged_lists
        assert narrow.lists == full.lists
