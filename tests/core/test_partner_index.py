"""Joins over plain facts: partners, waiting devices, and devices that are matched again after changes of others."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.core.entry.joins import Join, PartnerKey, PartnerPool
from agent.core.entry.resource_spec import Source
from agent.core.inventory.dirty_set import DirtySet
from agent.core.inventory.facts import Facts
from agent.core.inventory.inventory import update_inventory
from agent.core.inventory.listing import Listing
from agent.core.inventory.partner_index import KnownPartners
from agent.core.inventory.partner_words import PartnerWord
from agent.core.language.operators import Equals, Quantifier, RelationItems
from agent.core.language.template import parse
from agent.core.language.value import Absent, ValueType
from tests.core.builders import PCI, clause, env, line, spec
from tests.core.builders import Facts as Reader
from tests.core.builders import host as plain_host

CARDS = Source("subsystem", ("card",))
BOARDS = Source("subsystem", ("board",))


def host(name, source="pci", instance_id="1"):
    device = plain_host(name, name, instance_id, source)
    return device.__class__(source, name, name, name, f"/sys/devices/{name}", instance_id=instance_id)


def pool(source=CARDS, theirs=("serial",), match=None, own=None, joins=()):
    words = tuple(PartnerKey(word, ValueType.TEXT) for word in theirs)
    return PartnerPool(source, words, match or clause(), own or {}, joins)


def join(name="card", ours=("serial",), optional=False, **more):
    return Join(name, pool(**more), ours, optional)


def entry(*joins, match=(), own=(), name="example.com/a", **more):
    words = {
        f"{each.name}.{word}": PartnerWord(each, word) for each in joins for word in ("color", "serial", "ports", *own)
    }
    fields = {"match": clause(*match), "derived_words": words, "joins": joins, "id": (parse("{name}"),), **more}
    return spec(name, **fields)


class Machine:
    """A reader and a listing that change; each look goes on from the one before."""

    def __init__(self, facts, **sources):
        self.facts = {name: {"name": name, **words} for name, words in facts.items()}
        self.names = {"pci": PCI, "cards": CARDS, "boards": BOARDS}
        self.sources = sources
        self.previous = None
        self.devices = {}
        self.reader = None

    def look(self, *specs, touched=None):
        self.reader = Reader(self.facts)
        listing = {}
        for kind, names in self.sources.items():
            source = self.names[kind]
            found = [self.devices.setdefault((kind, name), host(name, source.kind)) for name in names]
            listing[source] = tuple(found)
        places = DirtySet(frozenset(f"/sys/devices/{name}" for name in touched)) if touched is not None else None
        args = (specs, Listing(listing), self.reader)
        self.previous = (
            update_inventory(*args, self.previous, places) if places is not None else update_inventory(*args)
        )
        return self.previous

    def fresh(self, *specs):
        """What a look at everything sees."""
        known, self.previous = self.previous, None
        seen = self.look(*specs)
        self.previous = known
        return seen


def outcome(look):
    """Of each host device, what it came to."""
    found = {}
    for key, sighting in look.match_results.items():
        if sighting.candidate:
            taken = sighting.candidate
            partners = {join.name: device.name for (_, join), device in taken.partners.items()}
            found[key] = (
                taken.resource,
                taken.not_ready_reason,
                str(taken.unhealthy_reason),
                tuple(sorted(partners.items())),
            )
        else:
            found[key] = tuple(
                (refusal.address, refusal.facts_text, refusal.is_undecided) for refusal in sighting.mismatches
            )
    return found


RED = {"serial": "1", "color": "red"}


def machine():
    facts = {"a": {"serial": "1"}, "b": {"serial": "2"}, "c": {}, "one": RED, "two": {"serial": "2", "color": "blue"}}
    return Machine(facts, pci=["a", "b", "c"], cards=["one", "two"])


@pytest.mark.parametrize("optional", [False, True])
def test_a_device_has_the_partner_that_is_equal_in_the_words(optional):
    wanted = entry(join(optional=optional), match=(line("card.color", "red"),))
    seen = outcome(machine().look(wanted))
    assert seen["a"] == ("example.com/a", "", "", (("card", "one"),))
    assert seen["b"] == (("match.card.color", "blue", False),)
    reason = "absent (no card: serial: no such file)"
    assert seen["c"] == (("match.card.color", reason, not optional),)
    assert seen["one"] == ()


def test_who_lacks_a_partner_waits_for_this_entry_and_no_later_one_has_it():
    first = entry(join(), match=(line("card.color", "red"),))
    later = entry(name="example.com/b")
    seen = outcome(machine().look(first, later))
    assert seen["a"][0] == "example.com/a"
    assert seen["b"][0] == "example.com/b"
    assert [undecided for _, _, undecided in seen["c"]] == [True]


def test_who_needs_a_partner_that_no_clause_asks_of_is_taken_and_waits():
    seen = outcome(machine().look(entry(join())))
    assert seen["a"] == ("example.com/a", "", "", (("card", "one"),))
    assert seen["c"] == ("example.com/a", "no card: serial: no such file", "", ())
    assert outcome(machine().look(entry(join(optional=True))))["c"][1] == ""


def test_several_are_as_none_and_named():
    both = machine()
    both.facts["two"]["serial"] = "1"
    seen = outcome(both.look(entry(join(), match=(line("card.color", "red"),))))
    assert seen["a"] == (("match.card.color", "absent (no card: several are: one, two)", True),)
    assert seen["b"] == (("match.card.color", "absent (no card: no subsystem card has serial = 2)", True),)


def test_only_a_partner_that_fits_the_clause_of_the_join_is_one():
    wanted = join(match=clause(line("color", "blue")))
    seen = outcome(machine().look(entry(wanted)))
    assert seen["b"][3] == (("card", "two"),)
    assert seen["a"][1] == "no card: no subsystem card has serial = 1"


def test_a_partner_of_which_not_all_is_known_yet_may_be_the_one():
    late = machine()
    late.facts["one"]["serial"] = Absent("udev is not done", pending=True)
    seen = outcome(late.look(entry(join(optional=True), match=(line("card.color", "red"),))))
    assert seen["a"] == (("match.card.color", "absent (no card: serial: udev is not done)", True),)


def test_a_join_may_need_another_and_a_partner_have_partners():
    board = join("board", ours=("slot",), source=BOARDS, theirs=("slot",))
    card = join(own={"board.color": PartnerWord(board, "color"), "paint": PartnerWord(board, "color")}, joins=(board,))
    rack = Join("rack", pool(BOARDS, ("rack",)), ("card.paint",))
    facts = {
        "a": {"serial": "1"},
        "one": {"serial": "1", "slot": "s"},
        "b0": {"slot": "s", "color": "green"},
        "b1": {"rack": "green", "color": "grey"},
    }
    host = Machine(facts, pci=["a"], cards=["one"], boards=["b0", "b1"])
    wanted = entry(
        card, rack, own=("paint", "board.color"), match=(line("card.paint", "green"), line("rack.color", "grey"))
    )
    partners = (("board", "b0"), ("card", "one"), ("rack", "b1"))
    assert outcome(host.look(wanted))["a"] == ("example.com/a", "", "", partners)
    host.facts["b0"]["color"] = "black"
    seen = host.look(wanted, touched=["b0"])
    assert outcome(seen)["a"] == (("match.card.paint", "black", False),)
    host.sources["boards"] = []
    assert outcome(host.look(wanted, touched=["b0", "b1"]))["a"][0][2] is True
    host.sources["boards"] = ["b2", "b3"]  # others than were there before
    host.facts["b2"] = {"name": "b2", "slot": "s", "color": "green"}
    host.facts["b3"] = {"name": "b3", "rack": "green", "color": "grey"}
    partners = (("board", "b2"), ("card", "one"), ("rack", "b3"))
    assert outcome(host.look(wanted, touched=["b2", "b3"]))["a"] == ("example.com/a", "", "", partners)


def test_a_clause_on_the_things_of_a_partner():
    ports = line("card.ports", None, test=RelationItems(Quantifier.ANY, "card.ports", clause(line("state", "active"))))
    facts = machine()
    facts.facts["one"]["things ports"] = (host("p1", "port"), host("p2", "port"))
    facts.facts["p1"], facts.facts["p2"] = {"state": "down"}, {"state": "active"}
    wanted = entry(join(), match=(ports,))
    assert outcome(facts.look(wanted))["a"][0] == "example.com/a"
    facts.facts["p2"] = {"state": "down"}
    assert outcome(facts.look(wanted, touched=["p2"]))["a"][0][0] == "match.card.ports"


def test_what_rests_on_a_partner_is_judged_again_when_it_comes_changes_and_goes():
    host = machine()
    wanted = entry(join(), match=(line("card.color", "red"),))
    host.look(wanted)
    host.facts["one"]["color"] = "blue"
    assert outcome(host.look(wanted, touched=["one"]))["a"] == (("match.card.color", "blue", False),)
    host.sources["cards"] = ["two"]
    assert outcome(host.look(wanted, touched=["one"]))["a"][0][2] is True
    host.facts["three"] = {"name": "three", **RED}
    host.sources["cards"] = ["two", "three"]
    assert outcome(host.look(wanted, touched=["three"]))["a"] == ("example.com/a", "", "", (("card", "three"),))
    host.facts["two"]["serial"] = "1"
    assert "several" in outcome(host.look(wanted, touched=["two"]))["a"][0][1]


def test_what_rests_on_a_partner_is_judged_again_when_its_source_is_looked_at_in_its_time():
    host = machine()
    wanted = entry(join(), match=(line("card.color", "red"),))
    host.look(wanted)
    host.facts["one"]["color"] = "blue"
    seen = update_inventory(
        (wanted,), host.previous.listing, Reader(host.facts), host.previous, DirtySet(sources=frozenset({CARDS}))
    )
    assert outcome(seen)["a"] == (("match.card.color", "blue", False),)


def test_how_often_to_look_where_is_said_by_joins_too():
    nested = Join("board", pool(BOARDS), ("slot",), interval=3.0)
    wanted = entry(Join("card", pool(joins=(nested,)), ("serial",)), interval=5.0)
    assert wanted.source_intervals == ((PCI, 5.0), (BOARDS, 3.0))
    assert wanted.sources == (PCI, CARDS, BOARDS)


def test_a_device_of_the_source_in_which_it_looks_for_partners_may_be_its_own():
    facts = {"a": {"slot": "1", "kind": "mgmt"}, "b": {"slot": "1", "kind": "user"}}
    host = Machine(facts, pci=["a", "b"])
    wanted = entry(Join("mgmt", pool(PCI, ("slot",), clause(line("kind", "mgmt"))), ("slot",)))
    seen = outcome(host.look(wanted))
    assert seen["a"][3] == seen["b"][3] == (("mgmt", "a"),)
    host.facts["a"]["kind"] = "user"
    seen = outcome(host.look(wanted, touched=["a"]))
    assert seen["a"][1] == seen["b"][1] == "no mgmt: no pci has slot = 1"


def test_a_thousand_devices_and_their_partners_are_read_once_each():
    cards = {f"card{n}": {"serial": str(n), "color": "red"} for n in range(100)}
    facts = {**cards, **{f"d{n}": {"serial": str(n % 100)} for n in range(1000)}}
    host = Machine(facts, pci=[name for name in facts if name[0] == "d"], cards=list(cards))
    specs = [entry(join(), match=(line("card.color", color),)) for color in ("blue", "red")]
    seen = host.look(*specs)
    assert sum(sighting.candidate is not None for sighting in seen.match_results.values()) == 1000
    serials = [key for key, word in host.reader.asked if word == "serial" and key.startswith("card")]
    assert len(serials) == 100
    colors = [key for key, word in host.reader.asked if word == "color"]
    assert len(colors) <= 2000  # a look at the facts of the one partner for each entry: what the reader remembers
    host.look(*specs, touched=["card7"])
    assert {key for key, word in host.reader.asked if word == "serial"} == {"card7", *(f"d{n}07"[0:] for n in ())} | {
        f"d{n}" for n in range(1000) if n % 100 == 7
    }


def test_at_a_grant_the_partner_is_looked_at_and_not_looked_for():
    host = machine()
    wanted = entry(join(), env=(env("COLOR", "{card.color}"),))
    taken = host.look(wanted).match_results["a"].candidate
    reader = Reader(host.facts)
    facts = Facts(wanted, taken.device, reader, KnownPartners(reader, taken.partners, {}))
    assert facts("card.color") == "red"
    assert {key for key, _ in reader.asked} == {"a", "one"}
    host.facts["one"]["serial"] = "9"
    reader = Reader(host.facts)
    facts = Facts(wanted, taken.device, reader, KnownPartners(reader, taken.partners, {}))
    assert facts("card.color") == Absent("no card: one is it no more")
    assert Facts(wanted, taken.device, reader, KnownPartners(reader, {}, {}))("card.color") == Absent(
        "no card: none was there when it was last looked for"
    )


KINDS = {"a": "pci", "b": "pci", "one": "cards", "two": "cards", "b0": "boards", "b1": "boards"}
WORDS = st.fixed_dictionaries({}, optional=dict.fromkeys(("serial", "slot", "color"), st.sampled_from("12")))
CHANGES = st.dictionaries(st.sampled_from(list(KINDS)), st.one_of(st.none(), WORDS, WORDS), max_size=3)


@settings(max_examples=150)
@given(st.dictionaries(st.sampled_from(list(KINDS)), WORDS), st.lists(CHANGES, min_size=1, max_size=4))
def test_events_come_to_the_same_as_looking_at_everything(first, rounds):
    board = join("board", ours=("slot",), source=BOARDS, theirs=("slot",), optional=True)
    card = join(own={"paint": PartnerWord(board, "color")}, joins=(board,))
    by_paint = Join(
        "painted", pool(CARDS, ("paint",), own={"paint": PartnerWord(board, "color")}, joins=(board,)), ("slot",)
    )
    twin = Join("twin", pool(PCI, ("color",), clause(line("slot", None, test=Equals("1")))), ("serial",), optional=True)
    rack = Join("rack", pool(BOARDS, ("color",)), ("card.paint",), optional=True)
    specs = (
        entry(card, rack, own=("paint",), match=(line("card.paint", "1"),)),
        entry(by_paint, match=(line("painted.serial", "1"),), name="example.com/b"),
        entry(twin, name="example.com/c"),
    )
    host = Machine({name: {} for name in KINDS}, pci=[], cards=[], boards=[])
    for number, changes in enumerate([first, *rounds]):
        for name, words in changes.items():
            there = [each for each in host.sources[KINDS[name]] if each != name]
            host.sources[KINDS[name]] = there if words is None else [*there, name]
            host.facts[name] = {"name": name, **(words or {})}
        seen = host.look(*specs, touched=set(changes) if number else None)
        assert outcome(seen) == outcome(host.fresh(*specs))
