"""What is seen at a glance is what judging each entry in full comes to, and it asks no more of the host."""

from hypothesis import given
from hypothesis import strategies as st

from agent.core.inventory.device import HostDevice
from agent.core.inventory.dirty_set import DirtySet
from agent.core.inventory.inventory import update_inventory
from agent.core.inventory.listing import Listing
from agent.core.language.operators import AllTests, AnyTest, Equals, Exists, Not, Quantifier, RelationItems
from agent.core.language.value import Absent
from tests.core.builders import PCI, Facts, clause, judge, line, spec

WORDS = ("a", "b", "c")
VALUES = ("x", "y", ("x",), (), Absent("no such file"), Absent("EIO", unreadable=True), Absent("udev", pending=True))
EQUAL = st.sampled_from(["x", "y"]).map(Equals)
TESTS = st.one_of(
    EQUAL,
    EQUAL.map(Not),
    st.booleans().map(Exists),
    st.lists(EQUAL, max_size=2).map(lambda tests: AnyTest(tuple(tests))),
    st.lists(EQUAL, max_size=2).map(lambda tests: AllTests(tuple(tests))),
    st.sampled_from(Quantifier).map(lambda of: Not(RelationItems(of, "things", clause(line("a", "x"))))),
)
LINES = st.builds(lambda word, test: line(word, None, test=test), st.sampled_from(WORDS), TESTS)
CLAUSES = st.lists(LINES, max_size=3).map(lambda lines: clause(*lines))
ENTRIES = st.lists(st.tuples(CLAUSES, st.lists(CLAUSES, max_size=2)), max_size=5).map(
    lambda entries: [
        spec(f"example.com/{number}", match=match, exclude=tuple(exclude), id=())
        for number, (match, exclude) in enumerate(entries)
    ]
)
DEVICES = tuple(HostDevice("pci", key, key, key, f"/sys/devices/{key}") for key in "0123")
SAID = st.fixed_dictionaries(
    {device.key: st.dictionaries(st.sampled_from(WORDS), st.sampled_from(VALUES)) for device in DEVICES}
)


@given(ENTRIES, SAID, SAID)
def test_each_device_is_taken_and_turned_down_as_by_one_entry_after_the_other(entries, said, later):
    listing = Listing({PCI: DEVICES})
    reader = Facts(said)
    first = update_inventory(entries, listing, reader)
    agrees(first, entries, said, reader.asked)
    reader = Facts(later)
    touched = DirtySet(frozenset(device.directory for device in DEVICES))
    agrees(update_inventory(entries, listing, reader, first, touched), entries, later, reader.asked)


def agrees(seen, entries, said, asked):
    reader = Facts(said)
    for device in DEVICES:
        refusals, stopped = [], None
        for number, entry in enumerate(entries):
            refusal = judge(entry, device, reader)
            if refusal is not None:
                refusals.append(refusal)
            if refusal is None or refusal.is_undecided:
                stopped = number
                break
        sighting = seen.match_results[device.key]
        assert (list(sighting.mismatches), sighting.taking_entry) == (refusals, stopped)
        assert sighting.is_undecided == bool(refusals and refusals[-1].is_undecided)
    assert {each for each in asked if each[1] in WORDS} == {each for each in reader.asked if each[1] in WORDS}
