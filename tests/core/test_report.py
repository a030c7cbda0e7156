"""The report of an agent snapshot: problems, and states that are no problems."""

from itertools import pairwise

import pytest

from agent.cli.status import format_device_table
from agent.cli.terminal import Terminal
from agent.core.entry.check import Check, CheckResult, CheckVerdict, LookCount, LookDuration
from agent.core.entry.check_results import DeviceCheckResult
from agent.core.entry.clause_check import ClauseCheck
from agent.core.entry.kernel_log import KernelLogHistory, Log, LogRecord
from agent.core.entry.kernel_log_check import KernelLogCheck
from agent.core.grants.held_ids import Holder
from agent.core.health.drain_overlay import Drain, DrainOverlay, DrainSet
from agent.core.health.evaluation import Evaluation, evaluate
from agent.core.inventory.device import DeviceList, Health
from agent.core.lists.build_lists import build_lists
from agent.core.lists.transitions import TransitionRecord, find_transitions
from agent.core.reason import NO_REASON, Reason
from agent.core.registration_phase import Phase
from agent.core.report.agent_snapshot import (
    STARTING,
    ActiveConfigState,
    AgentSnapshot,
    KubeletState,
    ResourceState,
    Stream,
)
from agent.core.report.explain_report import build_explain_report
from agent.core.report.problems import find_problems
from agent.core.report.status_report import build_status_report
from agent.core.struct import replace
from agent.status.history import History
from tests.core.builders import candidate, clause, host, look_at, make_check_reason, make_listed, no_kubelet, spec
from tests.core.test_log_pattern import message

A = "example.com/a"
STREAMING = ResourceState(Phase.STREAMING, since=10.0)
NOW = 1000.0


def moment(*candidates, specs=None, held=(), previous=None, drained=None, now=NOW, journal=None, **more):
    """An agent that saw these, as it would be."""
    entries = specs or (spec(),)
    seen = look_at(*candidates)
    names = [entry.name for entry in entries]
    concluded = evaluate(
        Evaluation(), seen.get_resource_candidates(), names, 5.0, 0.05, log_history=journal or KernelLogHistory()
    )
    how = drained or DrainSet()
    offers = DrainOverlay().update(concluded.candidates, how)
    assembly = build_lists(seen, entries, frozenset(held), previous or {}, now, candidates=offers)
    fields = {
        "node": "n",
        "version": "1",
        "wall_time": 1_000_000.0,
        "current_time": now,
        "start_time": 1.0,
        "configuration": ActiveConfigState("abcdef", 2.0, 3),
        "specs": entries,
        "inventory": seen,
        "candidates": offers,
        "check_states": concluded.check_states,
        "lists": assembly,
        "states": dict.fromkeys(assembly.lists, STREAMING),
        "streams": dict.fromkeys(assembly.lists, Stream(1, has_newest_list=True)),
        "kubelet": KubeletState(up=True, since=3.0),
        "drains": how,
        "held_ids": frozenset(held),
    }
    return AgentSnapshot(**fields | more)


ILL = {False: Health.HEALTHY, True: Health.UNHEALTHY}


def bad(name, fault="heat", **more):
    return candidate(host(name), name, fault=fault, **more)


def good(name, **more):
    return candidate(host(name), name, **more)


def list_problems(made):
    return [(one.subject, one.state, one.reason, one.devices) for one in find_problems(made)]


def test_a_device_that_is_in_its_pod_is_told_as_such_and_is_no_problem():
    made = moment(good("a", is_in_pod=True), good("b"), held=["a"])
    said = build_status_report(made)
    assert [device["in_pod"] for device in said["resources"][0]["devices"]] == [True, False]
    assert said["verdict"] == "well"
    _, _, *rows = format_device_table(said, said["resources"][0], Terminal())
    assert [row.rstrip().endswith("moved into its pod, so the host does not show it") for row in rows] == [True, False]


def test_all_is_well():
    made = moment(good("a"), good("b"))
    assert find_problems(made) == ()
    assert build_status_report(made)["verdict"] == "well"


def test_each_unhealthy_device_is_a_problem_until_they_are_many():
    few = moment(good("x"), *(bad(f"d{n}") for n in range(3)))
    assert list_problems(few) == [(A, "Unhealthy", "heat", (f"d{n}",)) for n in range(3)]
    many = moment(good("x"), *(bad(f"d{n}") for n in range(4)), bad("other", "cold"))
    assert list_problems(many) == [
        (A, "Unhealthy", "heat", ("d0", "d1", "d2", "d3")),
        (A, "Unhealthy", "cold", ("other",)),
    ]
    assert find_problems(many)[0].next_steps == ("device-agent explain d0",)


def test_a_state_that_cannot_be_written_is_a_problem():
    made = moment(
        good("a"), state_file_fault=Reason.from_text("the disk is: full", path="/var/lib/device agent/state.json")
    )
    assert list_problems(made) == [("state", "not written", "the disk is: full", ())]
    assert find_problems(made)[0].next_steps == ("df -h '/var/lib/device agent'",)
    assert build_status_report(made)["verdict"] == "attention"


def test_few_files_that_may_be_opened_are_a_problem_whoever_asks():
    (problem,) = find_problems(moment(good("a"), open_files_fault="9 of the 10 files that may be open at once are"))
    assert (problem.subject, problem.state) == ("open files", "short")
    assert problem.reason.startswith("9 of the 10")
    assert problem.next_steps == ("systemctl show device-agent -p LimitNOFILE",)


def test_what_is_drained_is_nobody_s_problem_even_where_it_fails_or_is_gone():
    drained = DrainSet({"d0": Drain("RMA", 5.0)})
    assert find_problems(moment(bad("d0"), good("d1"), drained=drained)) == ()
    before = moment(good("d0"), good("d1"))
    gone = moment(good("d1"), previous=before.lists.lists, held=("d0",), drained=drained)
    assert [str(device.reason) for device in gone.lists.lists[A].devices] == ["absent", ""]
    assert find_problems(gone) == ()
    assert list_problems(moment(good("d1"), previous=before.lists.lists)) == [(A, "Unhealthy", "absent", ("d0",))]


def test_what_the_configuration_gives_up_is_nobody_s_problem():
    before = moment(good("d0"))
    entries = (spec("example.com/other"),)
    made = moment(specs=entries, previous=before.lists.lists, held=("d0",))
    assert made.lists.lists[A].count_ids(Health.UNHEALTHY) == 1
    assert find_problems(made) == ()
    said = {one["name"]: one for one in build_status_report(made)["resources"]}
    assert said[A]["state"] == "retired"
    assert said[A]["devices"][0]["leaving"]


def test_what_waits_as_its_entry_says_is_no_problem_and_what_has_no_id_is_one():
    waits = moment(good("a"), replace(good("b"), not_ready_reason="driver = x, here y"))
    assert find_problems(waits) == ()
    assert build_status_report(waits)["resources"][0]["not_listed"] == [{"place": "b", "reason": "driver = x, here y"}]
    twice = moment(good("a"), candidate(host("b"), "a"))
    assert {one.state for one in find_problems(twice)} == {"not listed"}


def test_the_kubelet_is_one_problem_for_all_that_wait_for_it():
    made = moment(good("a"))
    down = replace(
        made,
        kubelet=KubeletState(up=False, since=990.0, reason="refused"),
        states={A: ResourceState(Phase.WAITING, no_kubelet("refused"), 990.0)},
    )
    assert list_problems(down) == [("kubelet", "down", "refused; 0 of 1 resource streaming", ())]
    resource = build_status_report(down)["resources"][0]
    assert (resource["state"], resource["waiting_for"]) == ("waiting", "kubelet")
    assert [one["subject"] for one in build_status_report(down, A)["attention"]] == ["kubelet"]
    alone = replace(down, kubelet=KubeletState(up=True, since=3.0))
    assert [one[:2] for one in list_problems(alone)] == [(A, "waiting")]
    starting = replace(made, kubelet=KubeletState(), states={A: ResourceState(Phase.WAITING, STARTING)})
    assert find_problems(starting) == ()


@pytest.mark.parametrize("text", ["starting", "kubelet: refused"])
def test_whether_a_resource_waits_for_the_kubelet_is_not_in_the_text_of_its_reason(text):
    state = ResourceState(Phase.WAITING, Reason.from_text(text), 990.0)
    made = replace(moment(good("a")), kubelet=KubeletState(up=False, since=990.0, reason="refused"), states={A: state})
    assert [one[:3] for one in list_problems(made)][1:] == [(A, "waiting", text)]
    assert build_status_report(made)["resources"][0]["waiting_for"] == text


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"error_count": 1}, ("configuration", "incomplete", "1 error; files with errors are left out", ())),
        ({"error_count": 1, "reload_error": "2 errors"}, ("configuration", "refused", "2 errors", ())),
    ],
)
def test_the_configuration_can_be_a_problem(how, said):
    assert list_problems(moment(good("a"), configuration=ActiveConfigState("abcdef", 2.0, 3, **how))) == [said]


def test_too_few_devices_are_a_problem():
    assert list_problems(moment(good("a"), missing_devices={A: "1 of 2 expected devices"})) == [
        (A, "short", "1 of 2 expected devices there", ())
    ]


def test_times_are_those_of_the_clock_now_however_it_jumped():
    changes = {
        (A, "a"): [
            TransitionRecord(900.0, Health.HEALTHY, Health.UNHEALTHY, "x"),
            TransitionRecord(910.0, Health.UNHEALTHY, Health.UNHEALTHY, "y"),
        ]
    }
    made = moment(bad("a"), changes=changes)
    (problem,) = build_status_report(made)["attention"]
    assert problem["since"] == "1970-01-12T13:45:00.000Z"  # 100 s before this moment
    assert build_status_report(moment(bad("a")))["attention"][0]["since"] == made.format_time(1.0)


def test_who_holds_it_is_said_once_with_all_its_shares():
    holder = Holder("ml", "train", "worker")
    shared = replace(bad("a"), shares=3)
    made = moment(shared, holders={(A, "a::0"): (holder,), (A, "a::2"): (holder,)}, holders_time=999.0)
    (problem,) = build_status_report(made)["attention"]
    assert problem["held_by"] == [{"namespace": "ml", "pod": "train", "container": "worker", "ids": []}]
    resource = build_status_report(made)["resources"][0]
    assert resource["in_use"] == 2
    assert resource["devices"][0]["held_by"][0]["ids"] == ["a::0", "a::2"]
    assert build_status_report(moment(shared))["resources"][0]["in_use"] is None


CHECKS = [
    (Check("ok", ClauseCheck(clause())), CheckResult(CheckVerdict.PASS), ("ok", None, None)),
    (
        Check("bad", ClauseCheck(clause())),
        CheckResult(CheckVerdict.FAIL, "hot"),
        ("failing", "hot", "by itself, after 1 good look"),
    ),
    (
        Check("latch", ClauseCheck(clause()), recovery_threshold=None),
        CheckResult(CheckVerdict.FAIL, "hot"),
        ("failing", "hot", "after repair, by device-agent clear"),
    ),
    (
        Check("slow", ClauseCheck(clause()), recovery_threshold=LookDuration(30)),
        CheckResult(CheckVerdict.FAIL, "hot"),
        ("failing", "hot", "by itself, after 30 s of good looks"),
    ),
    (
        Check("not-yet", ClauseCheck(clause()), failure_threshold=LookCount(3)),
        CheckResult(CheckVerdict.FAIL, "hot"),
        ("failing", "hot", "by itself, after 1 good look: it was never well"),
    ),
    (Check("unknown", ClauseCheck(clause())), CheckResult(CheckVerdict.IGNORED), ("unknown", None, None)),
    (
        Check("awaited", ClauseCheck(clause())),
        CheckResult(CheckVerdict.PENDING, "not asked yet"),
        ("unknown", "not asked yet", None),
    ),
    (Check("beside", ClauseCheck(clause())), CheckResult(CheckVerdict.NOT_APPLICABLE), ("not asked", None, None)),
]


@pytest.mark.parametrize(("check", "outcome", "said"), CHECKS, ids=[check.name for check, *_ in CHECKS])
def test_what_a_check_says(check, outcome, said):
    one = good("a")
    one = replace(one, check_results=(DeviceCheckResult(A, check, one.device.key, one.device.location, outcome),))
    (device,) = build_explain_report(moment(one), "a")["devices"]
    (row,) = device["checks"]
    assert (row["verdict"], row["reason"], row["recovers"]) == said
    assert row["latched"] == (check.name == "latch")
    assert (row["since"] is not None) == (row["verdict"] == "failing")


XID = Log(message("Xid {number}: {code:int}"), recovery_s=600.0)


def make_snapshot_with_log(log, phrase=("fell off",)):
    one = good("a")
    heard = CheckResult(CheckVerdict.PASS, log_keys=frozenset({(1,)}), log_reason=phrase)
    return replace(
        one,
        check_results=(
            DeviceCheckResult(
                A, Check("xid", KernelLogCheck(log), recovery_threshold=None), one.device.key, "a", heard
            ),
        ),
    )


@pytest.mark.parametrize(
    ("log", "latched", "recovers"),
    [
        (XID, False, "by itself, after 600 s without such a line"),
        (replace(XID, latch=True), True, "after repair, by device-agent clear"),
        (replace(XID, recovery_s=None), True, "after repair, by device-agent clear"),
    ],
)
def test_a_line_of_the_kernel_log_is_the_evidence(log, latched, recovers):
    journal = KernelLogHistory()
    journal.set_logs([log])
    journal.add_record(LogRecord(1, 4.0, "Xid 1: 79"))
    (device,) = build_explain_report(moment(make_snapshot_with_log(log), journal=journal), "a")["devices"]
    (row,) = device["checks"]
    assert (row["verdict"], row["reason"], row["evidence"]) == ("failing", "fell off", "Xid 1: 79")
    assert (row["latched"], row["recovers"]) == (latched, recovers)
    assert row["since"] is not None


def test_who_cannot_hear_does_not_know():
    (row,) = build_explain_report(moment(make_snapshot_with_log(XID), kernel_log_fault="denied"), "a")["devices"][0][
        "checks"
    ]
    assert (row["verdict"], row["reason"]) == ("unknown", "the kernel log: denied")
    (row,) = build_explain_report(moment(make_snapshot_with_log(XID)), "a")["devices"][0]["checks"]
    assert (row["verdict"], row["reason"]) == ("ok", None)


def test_a_change_names_its_check():
    entry = spec(checks=(Check("link", ClauseCheck(clause())),))
    told = [
        make_check_reason("link", "down"),
        Reason.from_text("link: down"),
        NO_REASON,
        make_check_reason("taken_out", "down"),
    ]
    lists = [
        DeviceList(A, (make_listed("a", reason=reason, health=ILL[bool(reason)]),)) for reason in (NO_REASON, *told)
    ]
    changes = [one for before, after in pairwise(lists) for one in find_transitions(before, after)]
    history = History()
    history.record(changes, 900.0)
    made = moment(good("a"), specs=(entry,), changes=history.changes)
    said = [(one["check"], one["reason"]) for one in build_explain_report(made, "a")["devices"][0]["history"]]
    assert said == [
        ("link", "link: down"),
        (None, "link: down"),
        (None, "back, was: link: down"),
        (None, "taken_out: down"),
    ]


def test_what_fails_comes_first_and_outlasts_the_device():
    one = good("a")
    said = [
        (Check("ok", ClauseCheck(clause())), CheckResult(CheckVerdict.PASS)),
        (Check("link", ClauseCheck(clause())), CheckResult(CheckVerdict.FAIL, "down")),
    ]
    one = replace(
        one, check_results=tuple(DeviceCheckResult(A, check, one.device.key, "a", outcome) for check, outcome in said)
    )
    here = moment(one)
    assert [row["check"] for row in build_explain_report(here, "a")["devices"][0]["checks"]] == ["link", "ok"]
    left = evaluate(
        Evaluation(here.check_states, look_at(one).get_resource_candidates()), {}, (A,), 6.0, 0.05
    ).check_states
    gone = replace(moment(previous=here.lists.lists, held=("a",)), check_states=left)
    (row,) = build_explain_report(gone, "a")["devices"][0]["checks"]
    assert (row["check"], row["verdict"], row["recovers"]) == ("link", "failing", "when it is back")


def test_of_one_resource_only_that():
    entries = (spec(), spec("example.com/b"))
    made = moment(bad("a"), candidate(host("b"), "b", resource="example.com/b", fault="x", entry=1), specs=entries)
    assert [one["name"] for one in build_status_report(made, "example.com/b")["resources"]] == ["example.com/b"]
    assert [one["subject"] for one in build_status_report(made, "example.com/b")["attention"]] == ["example.com/b"]
    assert build_status_report(made, "example.com/c") is None
    assert [len(one["devices"]) for one in build_status_report(made)["resources"]] == [1, 1]
    assert [len(one["devices"]) for one in build_status_report(made, device_filter=A)["resources"]] == [1, 0]
    assert [one["unhealthy"] for one in build_status_report(made, device_filter="")["resources"]] == [1, 1]
    assert build_explain_report(made, A)["resource"]["name"] == A
    assert build_explain_report(made, "none")["devices"] == []
