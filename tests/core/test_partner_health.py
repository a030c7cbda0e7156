"""The health of partners: whoever was looked at, and whatever happened, it is that of the partner, at once."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.entry.cared import Assuming, at_once, knowing, supposing
from agent.core.entry.check import Behind, Check, Checked, Ear, Lasting, Outcome, Says
from agent.core.entry.log import Log, Record
from agent.core.entry.rises import Rises
from agent.core.health.conclude import Concluded, conclude
from agent.core.health.conditions import Spot
from agent.core.health.heard import Journal
from agent.core.language.text import parse
from agent.core.language.value import Kind
from tests.core.building import Known, candidate, clause, host, line
from tests.core.test_message import message

A = "example.com/a"
OF = (A, "")
LINK = Check("link", clause())
ECC = Check("ecc", Rises("errors"), recover=Lasting(1))
XID = Check("xid", Log(message("Xid {number}: {code:int}"), latch=True), recover=None)
PARENT = Check(
    "gpu", clause(line("gpu.healthy", True, Kind.BOOL)), reason=parse("its GPU: {gpu.reason}"), leans=("gpu",)
)


class Facts(Known):
    def answer(self, inquiry):
        raise AssertionError(inquiry)


def parent(number, *, bad=False, count=0):
    said = Outcome(Says.BAD, "no link") if bad else Outcome(Says.GOOD)
    key = f"key p{number}"
    return (
        Checked("gpu", LINK, key, f"p{number}", said),
        Checked("gpu", ECC, key, f"p{number}", Outcome(Says.GOOD, count=count)),
        Checked("gpu", XID, key, f"p{number}", Outcome(Says.GOOD, ear=Ear(frozenset({(number,)})))),
    )


def child(name, behind, waits=""):
    device = host(name)
    first = Checked(A, PARENT, device.key, name, Outcome(Says.NOTHING), behind=(Behind("gpu", waits, behind),))
    return replace(candidate(device, name), checked=(supposing(first, Facts({})),))


def faults(concluded):
    return {one.ids[0]: one.fault for one in concluded.offers.get(OF, {}).values()}


def seen(*children):
    return {OF: {one.device.key: one for one in children}}


def test_what_is_said_for_each_way_partners_may_be():
    check = replace(PARENT, holds=clause(line("a.healthy", True, Kind.BOOL), line("b.healthy", True, Kind.BOOL)))
    check = replace(check, reason=parse("{a.reason}, {b.reason}"), leans=("a", "b"))
    first = Checked(A, check, "k", "p", Outcome(Says.NOTHING), behind=(Behind("a", "", ()), Behind("b", "", ())))
    said = supposing(first, Facts({}))
    assert knowing(said, {}).outcome == Outcome(Says.GOOD)
    assert knowing(said, {"b": "cold"}).outcome == Outcome(Says.BAD, "?, cold")
    assert knowing(said, {"a": "x" * 300, "b": "cold"}).outcome.reason.startswith("xxx")
    assert len(knowing(said, {"a": "x" * 300, "b": "cold"}).outcome.reason) == 200
    assert Assuming(Facts({"c": 1}), ("a",), frozenset())("c") == 1


@pytest.mark.parametrize(
    ("waits", "bad", "said"),
    [("", False, ""), ("", True, "its GPU: link: no link"), ("not yet", False, "its GPU: not yet")],
)
def test_a_single_look(waits, bad, said):
    (one,) = child("c", parent(1, bad=bad), waits).checked
    assert at_once(one).outcome.reason == said


def test_it_is_stepped_once_however_many_ask():
    """Growth that is seen by one child after the other is no growth at the second."""
    before = conclude(Concluded(), seen(child("c", parent(1)), child("d", parent(1))), (A, "gpu"), 0, 0.05)
    made = conclude(before, seen(child("c", parent(1, count=3)), child("d", parent(1, count=3))), (A, "gpu"), 9, 0.05)
    assert set(faults(made).values()) == {"gpu: its GPU: ecc: errors grew from 0 to 3"}


def test_what_one_sees_is_so_for_the_other():
    c, d = child("c", parent(1)), child("d", parent(1))
    before = conclude(Concluded(), seen(c, d), (A, "gpu"), 0, 0.05)
    made = conclude(before, seen(child("c", parent(1, bad=True)), d), (A, "gpu"), 9, 0.05)
    assert set(faults(made).values()) == {"gpu: its GPU: link: no link"}
    assert conclude(made, made.seen, (A, "gpu"), 10, 0.05) is made


def test_who_goes_leaves_the_parent_to_the_others_and_the_last_takes_it_along():
    c, d = child("c", parent(1, bad=True)), child("d", parent(1, bad=True))
    made = conclude(Concluded(), seen(c, d), (A, "gpu"), 0, 0.05)
    one = conclude(made, seen(d), (A, "gpu"), 1, 0.05)
    assert Spot("gpu", "key p1") in one.conditions.there
    assert faults(one) == {"d": "gpu: its GPU: link: no link"}
    none = conclude(one, seen(), (A, "gpu"), 2, 0.05)
    assert none.listeners == {}
    assert none.conditions.there == {}
    assert none.conditions.memory().failing["gpu"] == {"p1": {"link": "no link"}}
    assert not conclude(none, seen(), (A,), 3, 0.05).conditions.there


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("look"), st.sampled_from("cdef"), st.booleans()),
        st.tuples(st.just("say"), st.sampled_from([1, 2, 3]), st.just(False)),
        st.tuples(st.just("gone"), st.sampled_from("cdef"), st.just(False)),
    ),
    max_size=25,
)


@given(STEPS)
def test_children_are_as_their_parents_are(steps):
    journal = Journal()
    journal.follow([XID.log])
    of = {"c": 1, "d": 1, "e": 2, "f": 2}
    bad, latched = {1: False, 2: False}, set()
    there = {name: child(name, parent(of[name])) for name in of}
    made = conclude(Concluded(), seen(*there.values()), (A, "gpu"), 0, 0.05, journal=journal)
    for now, (what, who, ill) in enumerate(steps, 1):
        told = frozenset()
        if what == "say":
            told = journal.hear(Record(now, float(now), f"Xid {who}: 79"))
            if any(of[name] == who for name in there):
                latched.add(who)
        elif what == "gone":
            there.pop(who, None)
        else:
            bad[of[who]] = ill
            there[who] = child(who, parent(of[who], bad=ill))
        if what == "look" and of[who] not in latched and any(key == (of[who],) for _, key in heard(journal)):
            latched.add(of[who])
        made = conclude(made, seen(*there.values()), (A, "gpu"), now, 0.05, journal=journal, stirred=told)
        for name, fault in faults(made).items():
            assert bool(fault) == (bad[of[name]] or of[name] in latched), (name, fault)


def heard(journal):
    return [(XID.log, (number,)) for number in (1, 2) if journal.of(XID.log, {(number,)})]
