"""Host devices that an entry puts together, as a look sees them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.entry.group import Grouping, GroupWord
from agent.core.inventory.device import HostDevice
from agent.core.inventory.dirty_set import DirtySet
from agent.core.inventory.inventory import update_inventory
from agent.core.inventory.listing import Listing
from agent.core.inventory.member_facts import MemberFacts
from agent.core.language.template import parse
from agent.core.language.value import Absent, ValueType
from agent.core.reason import NO_REASON
from tests.core.builders import PCI, Facts, clause, give, line, make_listed, node, spec

VFIO = clause(line("driver", "vfio"))
BY_GROUP = Grouping((GroupWord("group", ValueType.INT),))
CLAIMS = Grouping((GroupWord("group", ValueType.INT),), includes_unmatched=True)
KIT = {
    "dongle": clause(line("vendor", "0403"), name="group.parts.dongle"),
    "programmer": clause(line("vendor", "1a86"), name="group.parts.programmer"),
}


def host(name):
    return HostDevice("pci", name, name, name)


def look_at_facts(entries, facts, nodes=None):
    return update_inventory(entries, Listing({PCI: tuple(map(host, sorted(facts)))}), Facts(facts, nodes))


def group_of(entry, facts, key="a", nodes=None):
    return look_at_facts((entry,), facts, nodes).get_candidate(key)


def test_a_group_is_one_candidate_by_the_words_of_its_first_that_matches():
    entry = spec(match=VFIO, group=CLAIMS, id=(parse("{serial}"), parse("{matched.serial}"), parse("{driver}")))
    facts = {
        "a": {"group": 1, "serial": "A"},
        "b": {"group": 1, "serial": "B", "driver": "vfio", "numa": 1},
        "c": {"group": 1, "serial": "C", "driver": "vfio", "numa": 0},
    }
    now = look_at_facts((entry,), facts)
    found = now.get_candidate("a")
    assert found.device == host("b")
    assert found.ids == ("B", "vfio")
    assert [member.name for member in found.members] == ["a", "b", "c"]
    assert found.numa == (0, 1)
    assert all(now.get_candidate(key) is found for key in "abc")
    assert now.get_resource_candidates() == {("example.com/a", ""): {"b": found}}


def test_what_does_not_match_is_not_in_it_unless_all_is_claimed_and_a_later_entry_may_have_it():
    facts = {"a": {"group": 1, "driver": "vfio"}, "b": {"group": 1, "serial": "B"}}
    later = spec("example.com/b")
    now = look_at_facts((spec(match=VFIO, group=BY_GROUP), later), facts)
    assert [member.name for member in now.get_candidate("a").members] == ["a"]
    assert now.get_candidate("b").resource == "example.com/b"
    now = look_at_facts((spec(match=VFIO, group=CLAIMS), later), facts)
    assert now.get_candidate("b").resource == "example.com/a"
    assert list(now.get_resource_candidates()) == [("example.com/a", "")]


def test_what_an_earlier_entry_has_makes_the_group_unfit_and_says_where_it_is():
    facts = {"a": {"group": 1, "driver": "vfio"}, "b": {"group": 1}}
    first = spec("example.com/first", exclude=(clause(line("driver", "vfio"), name="x"),))
    now = look_at_facts((first, spec(match=VFIO, group=CLAIMS)), facts)
    assert str(now.get_candidate("a").unhealthy_reason) == "b is in example.com/first"
    assert now.get_candidate("b").resource == "example.com/first"
    facts["b"]["driver"] = Absent("to come", pending=True)
    assert (
        str(look_at_facts((first, spec(match=VFIO, group=CLAIMS)), facts).get_candidate("a").unhealthy_reason)
        == "b may be in example.com/first"
    )


def test_excluded_ones_come_along():
    entry = spec(exclude=(clause(line("serial", "B"), name="x"),), group=CLAIMS)
    found = group_of(entry, {"a": {"group": 1}, "b": {"group": 1, "serial": "B"}})
    assert [member.name for member in found.members] == ["a", "b"]
    assert [device.name for device in found.group.matched_members] == ["a"]


def test_nodes_are_those_of_every_member_and_missing_ones_a_fault_where_it_matches():
    entry = spec(match=VFIO, group=CLAIMS, nodes=(give("n", "/dev/{serial}"),))
    facts = {"a": {"group": 1, "driver": "vfio", "serial": "x"}, "b": {"group": 1, "serial": "y"}, "c": {"group": 1}}
    nodes = {"/dev/x": node("/dev/x"), "/dev/y": node("/dev/y", 1)}
    found = group_of(entry, facts, nodes=nodes)
    assert (found.nodes, found.unhealthy_reason) == (tuple(nodes.values()), NO_REASON)
    facts["c"]["driver"] = "vfio"
    assert str(group_of(entry, facts, nodes=nodes).unhealthy_reason) == "node n: serial: no such file"


@pytest.mark.parametrize(
    ("vendors", "waits"),
    [
        ({"a": "0403", "b": "1a86"}, ""),
        ({"a": "0403"}, "there is no programmer"),
        ({"b": "1a86"}, "there is no dongle"),
        ({"a": "0403", "b": "1a86", "c": "0403"}, "a and c are both dongle"),
        ({"a": "0403", "b": "1a86", "c": "ffff"}, ""),
    ],
)
@pytest.mark.parametrize("by", [(GroupWord("group", ValueType.INT),), ()])
def test_parts_make_a_device_when_each_is_there_once(vendors, waits, by):
    facts = {name: {"vendor": vendor, "group": 1} for name, vendor in vendors.items()}
    found = group_of(spec(group=Grouping(by, member_clauses=KIT)), facts, min(facts))
    hint = "" if by or "both" not in waits else "; say in group.by what keeps them apart"
    assert found.not_ready_reason == waits + hint


def test_what_is_no_part_is_left_to_others_and_told_why():
    entries = (spec(group=Grouping(member_clauses=KIT)), spec("example.com/other"))
    now = look_at_facts(entries, {"a": {"vendor": "0403"}, "b": {"vendor": "ffff"}})
    assert now.get_candidate("b").resource == "example.com/other"
    (refusal,) = now.match_results["b"].mismatches
    assert (refusal.resource, refusal.address, refusal.facts_text) == ("example.com/a", "match.vendor", "ffff")


def test_each_part_is_a_word():
    entry = spec(group=Grouping(member_clauses=KIT), id=(parse("{programmer}-{dongle.serial}-{serial}"),))
    facts = {"a": {"vendor": "1a86", "serial": "P"}, "b": {"vendor": "0403", "serial": "D"}}
    found = group_of(entry, facts)
    assert found.ids == ("a-D-P",)
    del facts["b"]
    assert group_of(entry, facts).missing_id_reason == "dongle.serial: there is no dongle"


def test_a_device_alone_is_all_its_members():
    entry = spec(id=(parse("{x}"), parse("{matched}+{members.serial}")))
    assert group_of(entry, {"a": {"serial": "A"}}).ids == ("a_A",)


def has_listed_id(candidate, id, lead):  # noqa: A002
    return candidate.has_id_of(make_listed(id, "b", id_location=lead))


def test_an_id_stays_while_the_member_that_gave_it_says_so_or_is_gone():
    entry = spec(group=BY_GROUP, id=(parse("k-{serial}"),))
    found = group_of(entry, {name: {"group": 1, "serial": name.upper()} for name in "ab"})
    assert found.ids == ("k-A",)
    assert has_listed_id(found, "k-B", "b")
    assert not has_listed_id(found, "k-A", "b")
    assert has_listed_id(found, "k-C", "c")  # gone
    assert not has_listed_id(found, "x-C", "c")


def test_no_member_that_is_there_may_contradict_an_id():
    entry = spec(group=Grouping(member_clauses=KIT), id=(parse("{dongle.serial}-{serial}"),))
    found = group_of(entry, {"a": {"vendor": "1a86", "serial": "P"}, "b": {"vendor": "0403", "serial": "D"}})
    assert has_listed_id(found, "D-gone", "c")
    assert not has_listed_id(found, "E-gone", "c")


def test_an_event_at_one_member_is_one_at_all_that_rests_on_it():
    entry = spec(group=BY_GROUP, id=(parse("{serial}"),), nodes=(give("n", "/dev/{serial}"),))
    facts = {name: {"group": 1, "serial": name} for name in "ab"}
    before = look_at_facts((entry,), facts)
    assert str(before.get_candidate("a").unhealthy_reason) == "/dev/a: no such file"
    after = update_inventory(
        (entry,),
        before.listing,
        Facts(facts, {"/dev/a": node("/dev/a"), "/dev/b": node("/dev/b")}),
        before,
        DirtySet(frozenset({"/dev/b"})),
    )
    assert str(after.get_candidate("a").unhealthy_reason) == ""
    assert after.get_candidate("a") is after.get_candidate("b")


def test_what_is_not_known_to_be_together_yet_is_nobodys():
    facts = {"a": {"group": Absent("to come", pending=True)}}
    now = look_at_facts((spec(group=BY_GROUP), spec("example.com/later")), facts)
    assert now.get_candidate("a") is None
    (refusal,) = now.match_results["a"].mismatches
    assert (refusal.address, refusal.source_text, refusal.facts_text) == ("group.by", "group", "absent (to come)")


def members(**facts):
    hosts = {name: Known({"serial": name.upper(), **said}, name) for name, said in facts.items()}
    parts = {"dongle": hosts["a"], "gone": None}
    return MemberFacts(hosts["a"], tuple(hosts.values()), (hosts["a"],), parts), hosts


class Known:
    """`Facts` of one host device over a plain mapping."""

    def __init__(self, said, name):
        self.said, self.device = said, host(name)

    def __call__(self, word):
        return self.said.get(word, Absent("no such file"))

    def follow_relation(self, word):
        return self.said.get(word, Absent("no such file"))


@pytest.mark.parametrize(
    ("word", "says"),
    [
        ("serial", "A"),
        ("./file", "x"),
        ("dongle", "a"),
        ("dongle.serial", "A"),
        ("dongle/file", "x"),
        ("dongle.pf.netdev", "y"),
        ("dongle.pf/file", "z"),
        ("gone.serial", Absent("there is no gone")),
        ("members", ("a", "b", "c")),
        ("members.serial", ("A", "B", "C")),
        ("members.ports", (1, 2, 3)),
        ("matched.serial", ("A",)),
        ("members.odd", ()),
        ("matched.odd", Absent("no such file")),
        ("members.bad", Absent("EIO", unreadable=True)),
    ],
)
def test_words_of_members(word, says):
    facts, _ = members(
        a={"./file": "x", "pf.netdev": "y", "pf/file": "z", "ports": (1, 2)},
        b={"ports": (3,)},
        c={"bad": Absent("EIO", unreadable=True)},
    )
    assert facts(word) == says


def test_clauses_are_asked_of_members_and_of_what_they_lead_to():
    facts, hosts = members(a={"ports": ("p", "q")}, b={}, c={"ports": ("r",), "bad": Absent("EIO", unreadable=True)})
    assert facts.follow_relation("members") == tuple(hosts.values())
    assert facts.follow_relation("matched") == (hosts["a"],)
    assert facts.follow_relation("members.ports") == ("p", "q", "r")
    assert facts.follow_relation("dongle.ports") == facts.follow_relation("ports") == ("p", "q")
    assert facts.follow_relation("gone.ports") == Absent("there is no gone")
    assert facts.follow_relation("members.bad").unreadable
    assert (
        facts.replace_id_member(None).follow_relation("ports")
        == facts.replace_id_member(None)("serial")
        == Absent("it is gone")
    )
    assert facts.replace_id_member(None)("dongle.serial") == "A"


def test_a_look_asks_of_each_device_the_same_however_many_there_are_and_an_event_of_its_group_alone():
    entry = spec(match=VFIO, group=CLAIMS)
    full, event = [], []
    for number in (40, 400):
        facts = {f"k{index}": {"group": index // 4, "driver": "vfio"} for index in range(number)}
        hosts = tuple(HostDevice("pci", key, key, key, f"/sys/devices/{key}") for key in facts)
        reader = Facts(facts)
        now = update_inventory((entry,), Listing({PCI: hosts}), reader)
        full.append(len(reader.asked) / number)
        reader = Facts(facts)
        update_inventory((entry,), now.listing, reader, now, DirtySet(frozenset({"/sys/devices/k5"})))
        event.append(len(reader.asked))
        assert {key for key, _ in reader.asked} == {"k4", "k5", "k6", "k7"}
    assert full[0] == full[1]
    assert event[0] == event[1]


# Any sequence of touches sees what a look at everything does.

NAMES = "abcd"
HOSTS = {name: HostDevice("pci", name, name, name, f"/sys/devices/{name}") for name in NAMES}
ENTRIES = (
    spec("example.com/a", match=VFIO, group=CLAIMS, id=(parse("{place}"),)),
    spec("example.com/b", match=clause(line("vendor", "0403")), id=(parse("{place}"),)),
    spec(
        "example.com/c",
        group=Grouping((GroupWord("group", ValueType.INT), GroupWord("slot", ValueType.TEXT))),
        id=(parse("{place}-{slot}"),),
        nodes=(give("n", "{path}"),),
    ),
    spec("example.com/d", match=VFIO, group=Grouping(member_clauses=KIT), id=(parse("{dongle.place}"),)),
)
SAID = st.fixed_dictionaries(
    {},
    optional={
        "driver": st.sampled_from(["vfio", "e1000"]),
        "vendor": st.sampled_from(["0403", "1a86", Absent("to come", pending=True)]),
        "group": st.sampled_from([0, 1, Absent("to come", pending=True)]),
        "slot": st.sampled_from("xy"),
        "path": st.just("/dev/x"),
    },
)
MACHINES = st.tuples(st.dictionaries(st.sampled_from(NAMES), SAID), st.booleans())


class Machine(Facts):
    def __init__(self, machine):
        said, there = machine
        super().__init__(
            {name: {"place": name, **facts} for name, facts in said.items()}, {"/dev/x": node()} if there else {}
        )

    @property
    def listing(self):
        return Listing({PCI: tuple(HOSTS[name] for name in sorted(self.facts))})


def find_dirty_set(before, after):
    paths = {f"/sys/devices/{name}" for name in NAMES if before[0].get(name) != after[0].get(name)}
    return DirtySet(frozenset(paths | ({"/dev/x"} if before[1] != after[1] else set())))


@given(MACHINES, st.lists(st.tuples(MACHINES, st.sets(st.sampled_from(NAMES))), max_size=3))
def test_a_narrow_look_sees_what_a_full_one_does(machine, changes):
    now = update_inventory(ENTRIES, Machine(machine).listing, Machine(machine))
    for change, more in changes:
        reader = Machine(change)
        wider = DirtySet(frozenset(f"/sys/devices/{name}" for name in more))
        now.get_resource_candidates()
        now = update_inventory(ENTRIES, reader.listing, reader, now, find_dirty_set(machine, change) | wider)
        full = update_inventory(ENTRIES, reader.listing, reader)
        assert now == full
        assert now.get_resource_candidates() == full.get_resource_candidates()
        machine = change
