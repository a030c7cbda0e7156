"""The health of partners: after any look and any event it is current at once."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.entry.check import Check, CheckResult, CheckVerdict, LookDuration
from agent.core.entry.check_results import (
    DeviceCheckResult,
    PartnerDependent,
    PartnerResults,
    copy_inputs,
    resolve_partners,
)
from agent.core.entry.clause_check import ClauseCheck
from agent.core.entry.counter_check import CounterCheck
from agent.core.entry.fact_copy import copy_facts
from agent.core.entry.joins import Join, PartnerPool
from agent.core.entry.kernel_log import KernelLogHistory, Log, LogRecord
from agent.core.entry.kernel_log_check import KernelLogCheck
from agent.core.entry.partner_checks import PartnerChecks
from agent.core.entry.query import ProgramQuery, QueryResult, QueryStatus
from agent.core.entry.query_check import RunTemplate
from agent.core.health.check_states import DeviceRef
from agent.core.health.evaluation import Evaluation, evaluate
from agent.core.health.saved_checks import SavedChecksBuilder
from agent.core.inventory.check_run import find_partner_wait, resolve_one_look, run_checks
from agent.core.language.template import parse
from agent.core.language.value import ValueType
from agent.core.struct import replace
from tests.core.builders import PCI, Known, candidate, clause, host, line
from tests.core.test_log_pattern import message

A = "example.com/a"
OF = (A, "")
LINK = Check("link", ClauseCheck(clause()))
ECC = Check("ecc", CounterCheck("errors"), recovery_threshold=LookDuration(1))
XID = Check("xid", KernelLogCheck(Log(message("Xid {number}: {code:int}"), latch=True)), recovery_threshold=None)
PARENT = Check(
    "gpu",
    ClauseCheck(clause(line("gpu.healthy", True, ValueType.BOOL))),
    reason=parse("its GPU: {gpu.reason}"),
    partner_joins=("gpu",),
)


class Facts(Known):
    def get_query_result(self, inquiry):
        assert inquiry == ProgramQuery(("/bin/x", "ours"), 1, 1)
        return QueryResult(QueryStatus.UNHEALTHY, "it said so", 7)


def parent(number, *, bad=False, count=0):
    said = CheckResult(CheckVerdict.FAIL, "no link") if bad else CheckResult(CheckVerdict.PASS)
    key = f"key p{number}"
    return (
        DeviceCheckResult("gpu", LINK, key, f"p{number}", said),
        DeviceCheckResult("gpu", ECC, key, f"p{number}", CheckResult(CheckVerdict.PASS, count=count)),
        DeviceCheckResult(
            "gpu",
            XID,
            key,
            f"p{number}",
            CheckResult(CheckVerdict.PASS, log_keys=frozenset({(number,)})),
        ),
    )


def child(name, behind, waits=""):
    device = host(name)
    return replace(
        candidate(device, name),
        check_results=(make_dependent_result(PARENT, PartnerResults("gpu", waits, behind), device=device),),
    )


def make_dependent_result(check, *behind, device=None, facts=()):
    device = device or host("c")
    read = copy_inputs(check, Facts(dict(facts)))
    return DeviceCheckResult(
        A, check, device.key, device.location, CheckResult(CheckVerdict.IGNORED), partners=behind, inputs=read
    )


def faults(concluded):
    return {one.ids[0]: str(one.unhealthy_reason) for one in concluded.candidates.get(OF, {}).values()}


def map_candidates(*children):
    return {OF: {one.device.key: one for one in children}}


def test_what_is_said_for_each_way_partners_may_be():
    check = replace(
        PARENT,
        criterion=ClauseCheck(
            clause(line("a.healthy", True, ValueType.BOOL), line("b.healthy", True, ValueType.BOOL)),
        ),
    )
    check = replace(check, reason=parse("{a.reason}, {b.reason}"), partner_joins=("a", "b"))
    said = make_dependent_result(check, PartnerResults("a", "", ()), PartnerResults("b", "", ()))
    assert resolve_partners(said, {}).result == CheckResult(CheckVerdict.PASS)
    assert resolve_partners(said, {"b": "cold"}).result == CheckResult(CheckVerdict.FAIL, "?, cold")
    assert resolve_partners(said, {"a": "x" * 300, "b": "cold"}).result.reason.startswith("xxx")
    assert len(resolve_partners(said, {"a": "x" * 300, "b": "cold"}).result.reason) == 200


WELL = clause(line("gpu.healthy", True, ValueType.BOOL))


@pytest.mark.parametrize(
    ("check", "ill", "said"),
    [
        (
            Check("a", ClauseCheck(clause(line("color", "blue"))), condition=WELL, partner_joins=("gpu",)),
            {},
            CheckResult(CheckVerdict.PASS),
        ),
        (
            Check("a", ClauseCheck(clause(line("color", "red"))), condition=WELL, partner_joins=("gpu",)),
            {"gpu": "cold"},
            CheckResult(CheckVerdict.NOT_APPLICABLE),
        ),
        (
            Check("a", ClauseCheck(clause(line("gpu.reason", "cold"))), partner_joins=("gpu",)),
            {"gpu": "cold"},
            CheckResult(CheckVerdict.PASS),
        ),
        (
            Check("a", CounterCheck("count"), reason=parse("{color} {gpu.reason}"), partner_joins=("gpu",)),
            {"gpu": "cold"},
            CheckResult(CheckVerdict.PASS, "blue cold", count=3),
        ),
        (
            Check("a", RunTemplate((parse("/bin/x"), parse("{whose}")), 1, 1), condition=WELL, partner_joins=("gpu",)),
            {},
            CheckResult(CheckVerdict.FAIL, "it said so", 7),
        ),
        (
            Check("a", RunTemplate((parse("{none}"),), 1, 1), condition=WELL, partner_joins=("gpu",)),
            {"gpu": "cold"},
            CheckResult(CheckVerdict.NOT_APPLICABLE),
        ),
        (
            Check(
                "a",
                KernelLogCheck(Log(message("Xid {number}: {code:int}"))),
                reason=parse("{gpu.reason}"),
                partner_joins=("gpu",),
            ),
            {"gpu": "cold"},
            CheckResult(CheckVerdict.PASS, log_keys=frozenset({(1,)}), log_reason=("cold",)),
        ),
    ],
)
def test_whatever_a_check_asks_is_read_at_the_look_and_judged_when_health_is_known(check, ill, said):
    facts = {"color": "blue", "count": 3, "whose": "ours", "number": 1}
    assert (
        resolve_partners(make_dependent_result(check, PartnerResults("gpu", "", ()), facts=facts), ill).result == said
    )


class Child(Facts):
    """A device with a partner that has no checks, and who is asked of it."""

    def __init__(self, facts):
        super().__init__(facts)
        self.device = host("p")
        self.asked = 0
        self.words = set()

    def __call__(self, word):
        self.words.add(word)
        assert word in {*self.facts, "gpu.healthy", "gpu.reason", "none"}  # of another the host would raise
        return super().__call__(word)

    def find_partner(self, join):
        assert join == JOIN
        return self

    def get_query_result(self, inquiry):
        self.asked += 1
        return super().get_query_result(inquiry)


JOIN = Join("gpu", PartnerPool(PCI, (), clause(), {}, partner_checks=PartnerChecks("gpu")), ())
RUN = Check("a", RunTemplate((parse("/bin/x"), parse("{whose}")), 1, 1), condition=WELL, partner_joins=("gpu",))


@pytest.mark.parametrize(
    ("check", "said"),
    [
        (PARENT, CheckResult(CheckVerdict.PASS)),
        (
            Check(
                "a",
                KernelLogCheck(Log(message("Xid {number}: {code:int}"))),
                reason=parse("{code}{gpu.reason}"),
                partner_joins=("gpu",),
            ),
            CheckResult(CheckVerdict.PASS, log_keys=frozenset({(1,)}), log_reason=(parse("{code}").slots[0], "?")),
        ),
        (RUN, CheckResult(CheckVerdict.FAIL, "it said so", 7)),
    ],
)
def test_a_look_says_what_it_is_if_all_partners_are_well(check, said):
    """So that a person sees it, and the kernel log is listened to for it."""
    (one,) = run_checks(A, [check], [JOIN], host("c"), Child({"number": 1, "whose": "ours"}))
    assert one.result == said
    assert len(one.partners) == 1


@pytest.mark.parametrize(
    ("when", "asked"),
    [
        ((), 1),
        ((line("driver", "x"),), 1),
        ((line("driver", "y"),), 0),
        ((line("none", "x"),), 0),
    ],
)
def test_nobody_is_asked_of_a_device_to_which_a_check_does_not_apply_however_its_partners_are(when, asked):
    check = replace(RUN, condition=clause(*when, *WELL.lines))
    facts = Child({"whose": "ours", "driver": "x"})
    (one,) = run_checks(A, [check], [JOIN], host("c"), facts)
    assert facts.asked == asked
    assert ("whose" in facts.words) == asked  # a word of a probe would start the probe
    assert one.result.verdict is (CheckVerdict.FAIL if asked else CheckVerdict.NOT_APPLICABLE)


def make_dependent(*lines, waits="", behind=(), facts=()):
    read = copy_facts((held := clause(*lines, name="wait.gpu"),), Facts(dict(facts)))
    return PartnerDependent("key c", (PartnerResults("gpu", waits, behind),), (held, read))


def cold(checked):
    return "cold" if checked else ""


ILL = line("gpu.healthy", False, ValueType.BOOL)


@pytest.mark.parametrize(
    ("hung", "said"),
    [
        (make_dependent(ILL), ""),
        (make_dependent(ILL, behind=parent(1)), "not yet: match.gpu.healthy = False, here false (gpu: cold)"),
        (make_dependent(ILL, waits="not yet"), "not yet: match.gpu.healthy = False, here false (gpu: not yet)"),
        (make_dependent(line("gpu.reason", "cold"), behind=parent(1)), "not yet: match.gpu.reason = 'cold', here cold"),
        (make_dependent(line("gpu.reason", "warm"), behind=parent(1)), ""),
        (make_dependent(ILL, line("color", "red"), behind=parent(1), facts={"color": "blue"}), ""),
    ],
)
def test_who_waits_for_a_partner(hung, said):
    waits, ailing = find_partner_wait((hung,), cold)
    assert waits.removesuffix(" (gpu: not yet)") == said.removesuffix(" (gpu: not yet)")
    assert set(ailing) == (
        {("key c", "gpu")} if hung.partners[0].check_results or hung.partners[0].not_ready_reason else set()
    )


def test_what_a_partner_waits_for_of_its_own_makes_it_ill():
    """The function of a VF of a card: `healthy` is what `health` and `wait` say, of whomever these speak."""
    card = PartnerResults("card", "", (), (make_dependent(ILL, behind=parent(1, bad=True)),))
    (held, _) = find_partner_wait(
        (
            PartnerDependent(
                "key c", (card,), (clause(line("card.healthy", False, ValueType.BOOL)), copy_facts((), Facts({})))
            ),
        ),
        cold,
    )
    inner = "not yet: match.gpu.healthy = False, here false (gpu: cold)"
    assert held == f"not yet: match.card.healthy = False, here false (card: {inner})"


def test_a_wait_turns_with_the_partner_whoever_is_looked_at():
    def waiting(name, behind):
        read = copy_facts((held := clause(ILL, name="wait.gpu"),), Facts({}))
        hung = (
            PartnerDependent(f"key {name}", (PartnerResults("gpu", "", behind),), (held, read)),
            PartnerDependent(f"key {name}", (PartnerResults("gpu", "", behind),)),
        )
        return replace(candidate(host(name), name), dependents=hung)

    c, d = waiting("c", parent(1)), waiting("d", parent(1))
    before = evaluate(Evaluation(), map_candidates(c, d), (A, "gpu"), 0, 0.05)
    assert before.candidates[OF] is before.original_candidates[OF] or list(before.candidates[OF].values()) == [c, d]
    made = evaluate(before, map_candidates(waiting("c", parent(1, bad=True)), d), (A, "gpu"), 9, 0.05)
    for one in made.candidates[OF].values():
        assert one.not_ready_reason == "not yet: match.gpu.healthy = False, here false (gpu: link: no link)"
        assert one.unhealthy_partners == {(one.device.key, "gpu"): "link: no link"}
    assert made.find_partner_refs(["key d"]) == {DeviceRef("gpu", "key p1")}
    well = evaluate(made, map_candidates(waiting("c", parent(1)), d), (A, "gpu"), 19, 0.05)
    assert [(one.not_ready_reason, one.unhealthy_partners) for one in well.candidates[OF].values()] == [
        ("", {}),
        ("", {}),
    ]


@pytest.mark.parametrize(
    ("waits", "bad", "said"),
    [("", False, ""), ("", True, "its GPU: link: no link"), ("not yet", False, "its GPU: not yet")],
)
def test_a_single_look(waits, bad, said):
    (one,) = child("c", parent(1, bad=bad), waits).check_results
    assert resolve_one_look(one).result.reason == said


def test_it_is_stepped_once_however_many_ask():
    """Growth that is seen by one child after the other is no growth at the second."""
    before = evaluate(Evaluation(), map_candidates(child("c", parent(1)), child("d", parent(1))), (A, "gpu"), 0, 0.05)
    made = evaluate(
        before, map_candidates(child("c", parent(1, count=3)), child("d", parent(1, count=3))), (A, "gpu"), 9, 0.05
    )
    assert set(faults(made).values()) == {"gpu: its GPU: ecc: errors grew from 0 to 3"}


def test_what_one_sees_is_so_for_the_other():
    c, d = child("c", parent(1)), child("d", parent(1))
    before = evaluate(Evaluation(), map_candidates(c, d), (A, "gpu"), 0, 0.05)
    made = evaluate(before, map_candidates(child("c", parent(1, bad=True)), d), (A, "gpu"), 9, 0.05)
    assert set(faults(made).values()) == {"gpu: its GPU: link: no link"}
    assert evaluate(made, made.original_candidates, (A, "gpu"), 10, 0.05) is made


def test_who_goes_leaves_the_parent_to_the_others_and_the_last_takes_it_along():
    c, d = child("c", parent(1, bad=True)), child("d", parent(1, bad=True))
    made = evaluate(Evaluation(), map_candidates(c, d), (A, "gpu"), 0, 0.05)
    one = evaluate(made, map_candidates(d), (A, "gpu"), 1, 0.05)
    assert DeviceRef("gpu", "key p1") in one.check_states.present_devices
    assert faults(one) == {"d": "gpu: its GPU: link: no link"}
    none = evaluate(one, map_candidates(), (A, "gpu"), 2, 0.05)
    assert none.subscribers == {}
    assert none.check_states.present_devices == {}
    assert SavedChecksBuilder().update(none.check_states).failure_reasons["gpu"] == {"p1": {"link": "no link"}}
    assert not evaluate(none, map_candidates(), (A,), 3, 0.05).check_states.present_devices


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
    journal = KernelLogHistory()
    journal.set_logs([XID.log])
    of = {"c": 1, "d": 1, "e": 2, "f": 2}
    bad, latched = {1: False, 2: False}, set()
    there = {name: child(name, parent(of[name])) for name in of}
    made = evaluate(Evaluation(), map_candidates(*there.values()), (A, "gpu"), 0, 0.05, log_history=journal)
    for now, (what, who, ill) in enumerate(steps, 1):
        told = frozenset()
        if what == "say":
            told = journal.add_record(LogRecord(now, float(now), f"Xid {who}: 79"))
            if any(of[name] == who for name in there):
                latched.add(who)
        elif what == "gone":
            there.pop(who, None)
        else:
            bad[of[who]] = ill
            there[who] = child(who, parent(of[who], bad=ill))
        if what == "look" and of[who] not in latched and any(key == (of[who],) for _, key in list_matches(journal)):
            latched.add(of[who])
        made = evaluate(
            made, map_candidates(*there.values()), (A, "gpu"), now, 0.05, log_history=journal, changed_log_keys=told
        )
        for name, fault in faults(made).items():
            assert bool(fault) == (bad[of[name]] or of[name] in latched), (name, fault)


def list_matches(journal):
    return [(XID.log, (number,)) for number in (1, 2) if journal.find_matches(XID.log, {(number,)})]
