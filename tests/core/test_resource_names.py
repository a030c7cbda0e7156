"""Names that come out of words, and devices that wait: case by case. `test_assemble_life.py` has the rules."""

import pytest

from agent.core.entry.resource_name import format_resource_name
from agent.core.entry.resource_spec import ShareMap, Slots
from agent.core.inventory.device import DeviceList, Health
from agent.core.inventory.dirty_set import DirtySet
from agent.core.inventory.inventory import Inventory, update_inventory
from agent.core.inventory.listing import Listing
from agent.core.language.template import parse
from agent.core.language.value import Absent, ValueType
from agent.core.lists.build_lists import build_lists
from agent.core.lists.list_findings import find_missing_devices
from agent.core.lists.resource_names import EMPTY_SECONDS, MAX_NAMES, GeneratedName
from tests.core.builders import PCI, Facts, clause, give, host, line, spec

A, FAN = "example.com/a", "example.com/{model}"
NONE = frozenset()


class Node:
    """A machine over plain words, assembled again and again."""

    def __init__(self, *specs):
        self.specs = specs
        self.facts = {}
        self.held = NONE
        self.now = 0.0
        self.assembly = build_lists(Inventory(), (), NONE, {}, 0.0)
        self.look = None

    def says(self, place, **words):
        self.facts.setdefault(f"key {place}", {"serial": place}).update(words)

    def settle(self, seconds=1.0):
        self.now += seconds
        devices = tuple(host(key.removeprefix("key ")) for key in self.facts if key.startswith("key"))
        self.look = update_inventory(self.specs, Listing({PCI: devices}), Facts(self.facts))
        for _ in range(3):
            self.once()
            if not self.assembly.awaits_delivery:
                return self
        raise AssertionError("it moves for ever")

    def once(self):
        before = self.assembly
        state = (self.look, self.specs, self.held, before.lists, self.now)
        self.assembly = build_lists(
            *state, generated_names=before.generated_names, unchanged_lists=before.unchanged_lists
        )
        return self.lists()

    def lists(self):
        return {
            name: {each: str(device.reason) for device in snapshot.devices for each in device.list_ids()}
            for name, snapshot in self.assembly.lists.items()
        }

    def why(self):
        return {one.location: one.reason for one in self.assembly.unlisted}


def fan(name=FAN, **more):
    return spec(name, name_template=parse(name), **more)


@pytest.mark.parametrize(
    ("said", "name"),
    [
        ("H100", "example.com/H100-x"),
        ("A 10/b", "example.com/A-10-b-x"),
        ("1g.5gb+me", "example.com/1g.5gb.me-x"),
        ("-h-", "example.com/h--x"),
        ("_ü", None),
        ("", None),
        ("--", None),
        ("x" * 61, f"example.com/{'x' * 61}-x"),
        ("x" * 62, None),
        (Absent("no such file"), None),
    ],
)
def test_a_word_is_cleaned_for_a_name(said, name):
    written = format_resource_name(parse("example.com/{model}-x"), lambda _: said)
    assert (None if isinstance(written, Absent) else written) == name


def test_one_entry_is_of_several_resources_which_appear_with_their_devices():
    node = Node(fan()).settle()
    assert node.lists() == {}
    node.says("p1", model="m1")
    node.says("p2", model="m2")
    node.says("p3", model="m1")
    assert node.settle().lists() == {"example.com/m1": {"p1": "", "p3": ""}, "example.com/m2": {"p2": ""}}
    assert node.assembly.written_names == {"example.com/m1": FAN, "example.com/m2": FAN}


def test_an_empty_name_stays_for_a_while_and_then_ends():
    node = Node(fan())
    node.says("p1", model="m1")
    node.settle()
    node.says("p1", model="m2")
    assert node.settle().lists() == {"example.com/m1": {}, "example.com/m2": {"p1": ""}}
    assert node.assembly.next_at == node.now + EMPTY_SECONDS
    node.settle(EMPTY_SECONDS - 1)
    assert node.assembly.ended_resources == NONE
    node.settle(1)
    assert node.assembly.ended_resources == {"example.com/m1"}
    assert node.assembly.written_names == {"example.com/m2": FAN}
    node.says("p1", model="m1")
    node.settle()
    assert node.assembly.ended_resources == NONE
    assert node.lists() == {"example.com/m1": {"p1": ""}, "example.com/m2": {}}


def test_a_name_stays_while_a_device_wants_it():
    node = Node(fan())
    node.says("p1", model="m1", serial=Absent("EIO", unreadable=True))
    node.settle()
    node.settle(2 * EMPTY_SECONDS)
    assert node.lists() == {"example.com/m1": {}}
    assert (node.assembly.ended_resources, node.assembly.next_at) == (NONE, None)


def test_a_held_device_keeps_its_name_and_says_what_it_would_be():
    node = Node(fan())
    node.says("p1", model="m1")
    node.settle()
    node.held = frozenset({"p1"})
    node.says("p1", model="m2")
    node.settle(EMPTY_SECONDS)
    assert node.lists() == {
        "example.com/m1": {"p1": "no longer offered: it is example.com/m2 now"},
        "example.com/m2": {},
    }
    node.held = NONE
    assert node.settle().lists() == {"example.com/m1": {}, "example.com/m2": {"p1": ""}}


def test_a_move_leaves_one_name_before_it_joins_the_other():
    node = Node(fan())
    node.says("p1", model="m1")
    node.settle()
    node.says("p1", model="m2")
    node.look = update_inventory(node.specs, Listing({PCI: (host("p1"),)}), Facts(node.facts))
    assert node.once() == {"example.com/m1": {}, "example.com/m2": {}}
    assert node.assembly.awaits_delivery
    assert node.once() == {"example.com/m1": {}, "example.com/m2": {"p1": ""}}


def test_without_its_word_a_device_waits_or_keeps_its_name_unhealthy():
    node = Node(fan())
    node.says("p1", model="m1")
    node.settle()
    for place in ("p1", "p2"):
        node.says(place, model=Absent("EIO", unreadable=True))
    reason = "it has no name: model: EIO"
    assert node.settle().lists() == {"example.com/m1": {"p1": reason}}
    assert node.why() == {"p2": reason}
    node.says("p1", model="m1")
    assert node.settle().lists() == {"example.com/m1": {"p1": ""}}


def test_what_is_unplugged_is_absent_under_its_name():
    node = Node(fan())
    node.says("p1", model="m1")
    node.settle()
    del node.facts["key p1"]
    assert node.settle().lists() == {"example.com/m1": {"p1": "absent"}}
    node.settle(EMPTY_SECONDS)
    assert node.lists() == {"example.com/m1": {}}
    node.settle(EMPTY_SECONDS)
    assert node.assembly.ended_resources == {"example.com/m1"}


@pytest.mark.parametrize("order", [1, -1])
def test_a_name_that_is_written_out_is_its_entrys_wherever_that_stands(order):
    entries = (fan(exclude=(clause(line("kind", "a"), name="a"),)), spec(A, match=clause(line("kind", "a"))))
    node = Node(*entries[::order])
    node.says("p1", kind="b", model="a")
    node.says("p2", kind="a")
    assert node.settle().lists() == {A: {"p2": ""}}
    assert node.why() == {"p1": "example.com/a belongs to the entry of that name"}


def test_of_two_texts_the_first_has_a_name_unless_the_other_has_it_already():
    other = "example.com/{kind}"
    only = [clause(line("of", of)) for of in "ab"]
    node = Node(fan(match=only[0]), fan(other, match=only[1]))
    node.says("p2", of="b", kind="m1")
    node.settle()
    node.says("p1", of="a", model="m1")
    assert node.settle().lists() == {"example.com/m1": {"p2": ""}}
    assert node.why() == {"p1": f"example.com/m1 belongs to {other}"}
    anew = Node(*node.specs)
    anew.facts = node.facts
    assert anew.settle().lists() == {"example.com/m1": {"p1": ""}}


def test_an_entry_has_so_many_names_and_no_more():
    node = Node(fan())
    for number in range(MAX_NAMES + 1):
        node.says(f"p{number}", model=f"m{number}")
    node.settle()
    assert len(node.assembly.written_names) == MAX_NAMES
    assert list(node.why()) == [f"p{MAX_NAMES}"]


def test_names_are_remembered_over_a_restart():
    node = Node(fan())
    node.says("p1", model="m1")
    node.settle()
    node.facts = {}
    node.assembly = build_lists(
        Inventory(), node.specs, NONE, node.assembly.lists, 0.0, generated_names={"example.com/m1": GeneratedName(FAN)}
    )
    assert node.lists() == {"example.com/m1": {"p1": "absent"}}


def test_a_text_that_is_taken_out_retires_its_names_and_another_takes_them_over():
    node = Node(fan())
    node.says("p1", model="m1")
    node.settle()
    node.held = frozenset({"p1"})
    node.specs = ()
    assert node.settle().lists() == {"example.com/m1": {"p1": "taken out by configuration"}}
    assert node.assembly.written_names == {}
    node.specs = (spec("example.com/m1"),)
    assert node.settle().lists() == {"example.com/m1": {"p1": ""}}


# Adding


def test_an_entry_adds_to_anothers_resource():
    first = spec(A, match=clause(line("kind", "a")))
    more = spec(A, is_addition=True, shares=2, id=(parse("{serial}-more"),))
    node = Node(first, more)
    node.says("p1", kind="a")
    node.says("p2", kind="b")
    assert node.settle().lists() == {A: {"p1": "", "p2-more::0": "", "p2-more::1": ""}}
    assert [node.look.get_candidate(f"key {place}").entry for place in ("p1", "p2")] == [0, 1]


def test_ids_are_unique_and_topology_is_all_or_none_over_the_resource():
    first = spec(A, match=clause(line("kind", "a")), id=(parse("{id}"), parse("{serial}")))
    more = spec(A, is_addition=True, id=(parse("{id}"), parse("{serial}")), topology=())
    node = Node(first, more)
    node.says("p1", kind="a", id="x", numa=0)
    assert node.settle().assembly.lists[A].devices[0].numa == (0,)
    node.says("p2", id="x")
    assert node.settle().lists() == {A: {"x": "", "p2": ""}}
    assert {device.numa for device in node.assembly.lists[A].devices} == {()}


# Shares


MODES = ShareMap("mode", (("shared", 4), ("dedicated", 1)))


def test_a_device_is_divided_as_its_word_says_and_again_when_that_changes():
    node = Node(spec(A, share_map=MODES))
    node.says("p1", mode="dedicated")
    assert node.settle().lists() == {A: {"p1::0": ""}}
    node.says("p1", mode="shared")
    assert list(node.settle().lists()[A]) == ["p1::0", "p1::1", "p1::2", "p1::3"]
    node.held = frozenset({"p1::2"})
    node.says("p1", mode="dedicated")
    leaves = "no longer offered: its device has 1 share now"
    assert node.settle().lists() == {A: {"p1::0": "", "p1::1": leaves, "p1::2": leaves}}
    assert node.settle().lists() == {A: {"p1::0": "", "p1::1": leaves, "p1::2": leaves}}
    node.held = NONE
    assert node.settle().lists() == {A: {"p1::0": ""}}


def test_what_the_map_does_not_have_waits():
    node = Node(spec(A, share_map=MODES))
    node.says("p1", mode="odd")
    node.says("p2")
    assert node.settle().lists() == {A: {}}
    assert node.why() == {
        "p1": "replicas: the map has nothing for mode = odd",
        "p2": "replicas: mode: no such file",
    }
    node.says("p1", mode="shared")
    node.settle()
    node.says("p1", mode="odd")
    assert node.settle().lists()[A] == dict.fromkeys(
        (f"p1::{n}" for n in range(4)), "replicas: the map has nothing for mode = odd"
    )


# Waiting


def test_not_yet_while():
    node = Node(spec(A, wait=(clause(line("state", "init"), name="wait.boot"),)))
    node.says("p1", state="init")
    assert node.settle().lists() == {A: {}}
    assert node.why() == {"p1": "not yet: match.state = 'init', here init"}
    node.says("p1", state="up")
    assert node.settle().lists() == {A: {"p1": ""}}
    node.says("p1", state="init")
    assert node.settle().lists() == {A: {"p1": "not yet: match.state = 'init', here init"}}
    node.says("p1", state=Absent("no such file"))
    assert node.settle().lists() == {A: {"p1": ""}}


def test_a_waiting_device_keeps_its_name_and_takes_it_up_again_after_a_replug():
    node = Node(fan(wait=(clause(line("state", "init"), name="wait.boot"),)))
    node.says("p1", model="m1", state="up")
    node.settle()
    node.says("p1", model="m2", state="init")
    waits = "not yet: match.state = 'init', here init"
    assert node.settle().lists() == {"example.com/m1": {"p1": waits}}
    devices = (host("p1", instance_id="2"),)
    node.look = update_inventory(node.specs, Listing({PCI: devices}), Facts(node.facts))
    assert node.once() == {"example.com/m1": {"p1": waits}}
    assert node.assembly.lists["example.com/m1"].devices[0].instance_id == "2"


OPEN = (clause(line("host.open", True, ValueType.BOOL), name="gate.open"),)
CLOSED = "waits for match.host.open = True, here false"


def test_a_closed_gate_holds_all_back_and_is_read_once():
    node = Node(spec(A, gate=OPEN))
    node.facts["gate:0"] = {"host.open": False}
    for place in ("p1", "p2"):
        node.says(place)
    assert node.settle().lists() == {A: {}}
    assert node.why() == dict.fromkeys(("p1", "p2"), CLOSED)
    node.facts["gate:0"]["host.open"] = True
    assert node.settle().lists() == {A: {"p1": "", "p2": ""}}
    node.facts["gate:0"]["host.open"] = False
    assert node.settle().lists() == {A: {"p1": CLOSED, "p2": CLOSED}}
    asked = []
    for devices in ((), (host("p1"),), (host("p1"), host("p2"))):
        reader = Facts(node.facts)
        update_inventory(node.specs, Listing({PCI: devices}), reader)
        asked.append(reader.asked.count(("gate:0", "host.open")))
    assert asked[0]
    assert len(set(asked)) == 1


def test_an_event_reads_a_gate_only_where_it_concerns_what_that_was_read_from():
    entries = (spec(A, gate=OPEN), spec("example.com/b"))
    facts = {"gate:0": {"host.open": False}, "key p1": {"serial": "x"}}
    places = {"gate:0": frozenset({"/sys/module"}), "key p1": frozenset({"/sys/devices/p1"})}
    listing = Listing({PCI: (host("p1"),)})
    first = update_inventory(entries, listing, Facts(facts, places=places))
    reader = Facts({**facts, "gate:0": {"host.open": True}}, places=places)
    same = update_inventory(entries, listing, reader, first, DirtySet(frozenset({"/sys/devices/p1"})))
    assert same.get_candidate("key p1").not_ready_reason == CLOSED
    assert ("gate:0", "host.open") not in reader.asked
    opened = update_inventory(entries, listing, reader, first, DirtySet(frozenset({"/sys/module/x"})))
    assert opened.get_candidate("key p1").not_ready_reason == ""
    assert opened == update_inventory(entries, listing, reader)
    assert opened.get_resource_candidates() == update_inventory(entries, listing, reader).get_resource_candidates()


# Slots


def test_slots_are_shares_of_the_whole_and_take_nothing_away():
    whole = spec("example.com/all", slots=Slots(2, parse("slot-{n}")), nodes=())
    node = Node(whole, spec(A))
    assert node.settle().lists() == {"example.com/all": {}, A: {}}
    node.says("p1")
    node.says("p2")
    both = {"example.com/all": {"slot-0": "", "slot-1": ""}, A: {"p1": "", "p2": ""}}
    assert node.settle().lists() == both
    del node.facts["key p1"]
    assert node.settle().lists()["example.com/all"] == both["example.com/all"]
    del node.facts["key p2"]
    assert node.settle().lists()["example.com/all"] == {"slot-0": "absent", "slot-1": "absent"}
    node.says("p1")
    assert node.settle().lists()["example.com/all"] == both["example.com/all"]


def test_slots_wait_with_what_they_give_and_leave_when_held_no_more():
    slots = Slots(3, parse("{resource|last:1}-{n}"))
    node = Node(spec(A, slots=slots, gate=OPEN))
    node.facts["gate:0"] = {"host.open": False}
    node.says("p1")
    assert node.settle().lists() == {A: {}}
    assert node.why() == {"p1": CLOSED}
    node.facts["gate:0"]["host.open"] = True
    assert node.settle().lists() == {A: {"a-0": "", "a-1": "", "a-2": ""}}
    node.facts["gate:0"]["host.open"] = False
    assert set(node.settle().lists()[A].values()) == {f"p1: {CLOSED}"}
    node.facts["gate:0"]["host.open"] = True
    node.held = frozenset({"a-2"})
    node.specs = (spec(A, slots=Slots(1, slots.id), gate=OPEN),)
    assert node.settle().lists() == {A: {"a-0": "", "a-2": "taken out by configuration"}}
    node.specs = (spec(A),)
    assert node.settle().lists() == {A: {"a-2": "taken out by configuration", "p1": ""}}
    node.held = NONE
    assert node.settle().lists() == {A: {"p1": ""}}


def test_slots_leave_a_list_that_did_not_change_before_its_devices_are_offered_one_by_one():
    node = Node(spec(A, slots=Slots(2, parse("slot-{n}"))))
    node.says("p1")
    for _ in range(2):
        assert node.settle().lists() == {A: {"slot-0": "", "slot-1": ""}}
    node.held = frozenset({"slot-1"})
    node.specs = (spec(A),)
    assert node.settle().lists() == {A: {"p1": "", "slot-1": "taken out by configuration"}}


def test_a_slot_is_unhealthy_when_nothing_of_it_is_healthy():
    node = Node(spec(A, slots=Slots(1, parse("slot-{n}")), nodes=(give("n", "/dev/gone"),)))
    node.says("p1")
    node.settle()
    (slot,) = node.assembly.lists[A].devices
    assert (slot.health, str(slot.reason), slot.reason.path) == (
        Health.UNHEALTHY,
        "p1: /dev/gone: no such file",
        "/dev/gone",
    )
    assert node.assembly.lists[A] != DeviceList(A)


# Expecting


def test_fewer_than_expected():
    entries = (
        spec(A, expect=2, match=clause(line("kind", "a"))),
        fan(expect=1, match=clause(line("kind", "b"))),
        spec("example.com/all", expect=2, slots=Slots(1, parse("slot-{n}"))),
    )
    node = Node(*entries)
    node.says("p1", kind="a")
    node.settle()
    assert find_missing_devices(node.specs, node.look, node.assembly) == {
        A: "1 of 2 expected devices",
        FAN: "0 of 1 expected device",
        "example.com/all": "1 of 2 expected devices",
    }
    node.says("p2", kind="a")
    node.says("p3", kind="b", model="m1")
    node.settle()
    assert find_missing_devices(node.specs, node.look, node.assembly) == {}
    del node.facts["key p3"]
    node.settle()
    assert find_missing_devices(node.specs, node.look, node.assembly) == {FAN: "0 of 1 expected device"}
