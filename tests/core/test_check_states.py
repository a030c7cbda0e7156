"""Checks over looks: which looks count, what is told, what outlasts a device and the agent."""

from hypothesis import given
from hypothesis import strategies as st

from agent.core.entry.check import (
    Check,
    CheckResult,
    CheckVerdict,
    LookCount,
    LookDuration,
    UnknownCause,
)
from agent.core.entry.check_results import DeviceCheckResult
from agent.core.entry.clause_check import ClauseCheck
from agent.core.entry.counter_check import CounterCheck
from agent.core.entry.kernel_log import EventRate, KernelLogHistory, Log, LogRecord
from agent.core.entry.kernel_log_check import KernelLogCheck
from agent.core.health import evaluation_step
from agent.core.health.check_states import DUE_LIMIT, DeviceRef
from agent.core.health.evaluation import Evaluation, evaluate, evaluate_one_look
from agent.core.health.saved_checks import SavedChecks, SavedChecksBuilder, restore_check_states
from agent.core.inventory.device import Health
from agent.core.inventory.dirty_set import ALL_DIRTY, DirtySet
from agent.core.inventory.inventory import update_inventory
from agent.core.inventory.listing import Listing
from agent.core.lists.build_lists import build_lists
from agent.core.reason import Reason
from agent.core.struct import replace
from tests.core.builders import PCI, Facts, candidate, clause, host, line, look_at, spec
from tests.core.test_log_pattern import message

A = "example.com/a"
OF = (A, "")
APART = 0.05  # seconds
GOOD, BAD = CheckResult(CheckVerdict.PASS), CheckResult(CheckVerdict.FAIL, "no link")
LINK = Check("link", ClauseCheck(clause()))
SLOW = Check("slow", ClauseCheck(clause()), interval=5.0, failure_threshold=LookDuration(10))
LATCH = Check("latch", ClauseCheck(clause()), recovery_threshold=None)


def ill(name, *said, place=None, key=None, fault="", entry=A):
    """A candidate of which checks say something."""
    device = host(place or name, key)
    checked = tuple(DeviceCheckResult(entry, check, device.key, device.location, outcome) for check, outcome in said)
    return replace(candidate(device, name, fault=fault), check_results=checked)


def map_candidates(*candidates):
    return {OF: {one.device.key: one for one in candidates}}


def evaluate_looks(*looks, before=None, entries=(A,)):
    """Return the check states after looks, each a time and its candidates."""
    before = before or Evaluation()
    for now, *candidates in looks:
        before = evaluate(before, map_candidates(*candidates), entries, now, APART)
    return before


def list_failures(check_states):
    """Return the reasons of failing checks, by entry, location and check."""
    devices = [*check_states.absent_devices.items()]
    devices += [((ref.entry, device.location), device) for ref, device in check_states.present_devices.items()]
    failures = {}
    for (entry, location), device in devices:
        for check, state in device.check_states.items():
            if state.failing:
                failures.setdefault(entry, {}).setdefault(location, {})[check] = state.reason
    return failures


def save_checks(conditions):
    """Return the saved checks for the next process."""
    return SavedChecksBuilder().update(conditions)


def faults(concluded):
    return {one.ids[0]: str(one.unhealthy_reason) for one in concluded.candidates.get(OF, {}).values()}


def test_what_fails_is_the_fault_and_all_else_stays_the_object_it_was():
    well, other = ill("well", (LINK, GOOD)), ill("other")
    made = evaluate_looks((0, well, other, ill("bad", (LINK, BAD))))
    assert faults(made) == {"well": "", "other": "", "bad": "link: no link"}
    assert made.candidates[OF]["key well"] is well
    assert made.candidates[OF]["key other"] is other


def test_what_checks_say_is_counted_once_for_each_look():
    unsure = {doubt: replace(GOOD, unknown_cause=doubt) for doubt in UnknownCause}
    said = ((LINK, BAD), (SLOW, unsure[UnknownCause.TIMEOUT]), (LATCH, unsure[UnknownCause.UNKNOWN]))
    made = evaluate_looks(
        (0, ill("a", *said), ill("b", (LINK, GOOD), (SLOW, CheckResult(CheckVerdict.NOT_APPLICABLE)), (LATCH, BAD)))
    )
    told = {("link", "failing"): 1, ("link", "ok"): 1, ("slow", "timeout"): 1, ("latch", "unknown"): 1}
    assert made.result_counts == {**told, ("latch", "failing"): 1}
    again = evaluate_looks((1, *made.original_candidates[OF].values(), ill("c", (LINK, GOOD))), before=made)
    assert again.result_counts == {("link", "ok"): 1}


def test_what_a_counter_says_is_whether_it_fails():
    rises = Check("errors", CounterCheck("errors"), recovery_threshold=None)
    made = evaluate_looks((0, ill("a", (rises, CheckResult(CheckVerdict.PASS, count=1)))))
    assert made.result_counts == {("errors", "ok"): 1}
    assert evaluate_looks(
        (1, ill("a", (rises, CheckResult(CheckVerdict.PASS, count=2)))), before=made
    ).result_counts == {("errors", "failing"): 1}


def test_nothing_fails_nothing_is_copied():
    looked = map_candidates(ill("well", (LINK, GOOD)))
    assert evaluate(Evaluation(), looked, (A,), 0, APART).candidates[OF] is looked[OF]


def test_the_first_in_file_order_is_said_and_what_cannot_be_given_before_it():
    both = ill("both", (SLOW, GOOD), (LATCH, BAD), (LINK, CheckResult(CheckVerdict.FAIL, "other")))
    assert faults(evaluate_looks((0, both))) == {"both": "latch: no link"}
    assert faults(evaluate_looks((0, replace(both, unhealthy_reason=Reason.from_text("/dev/x: no such file"))))) == {
        "both": "/dev/x: no such file"
    }


def test_what_was_not_looked_at_was_not_looked_at():
    """Another device's event, and another assembly, are no second look."""
    check = Check("link", ClauseCheck(clause()), failure_threshold=LookCount(2))
    bad, other = ill("bad", (check, BAD)), ill("other")
    made = evaluate_looks((-1, ill("bad", (check, GOOD))), (0, bad, other), (1, bad, ill("other")), (2, bad, other))
    assert faults(made)["bad"] == ""
    made = evaluate_looks((3, ill("bad", (check, BAD)), other), before=made)
    assert faults(made)["bad"] == "link: no link"


def test_the_same_look_again_changes_nothing():
    looked = map_candidates(ill("bad", (SLOW, BAD)))
    made = evaluate(Evaluation(), looked, (A,), 0, APART)
    assert evaluate(made, looked, (A,), 99, APART) is made


def test_it_says_when_to_look_again_and_at_what():
    made = evaluate_looks((0, ill("bad", (SLOW, BAD)), ill("well", (LINK, GOOD)), ill("two", (SLOW, GOOD))))
    assert made.check_states.next_at == 5
    assert made.check_states.find_due_keys(4.9) == frozenset()
    assert made.check_states.find_due_keys(5) == {"key bad", "key two"}
    made = evaluate_looks((5, ill("bad", (SLOW, BAD))), (10, ill("bad", (SLOW, BAD))), before=made)
    assert faults(made) == {"bad": "slow: no link"}
    assert made.check_states.find_due_keys(99) == {"key bad"}
    assert evaluate_looks((11,), before=made).check_states.next_at is None


def test_of_many_that_are_due_at_once_those_that_wait_longest_come_first():
    devices = 5 * DUE_LIMIT // 2
    now = [ill(f"d{number:04}", (SLOW, GOOD)) for number in range(devices)]
    early = [*now[:3], *(ill(f"d{number:04}") for number in range(3, devices))]
    made = evaluate_looks((0, *early), (1, *now))
    looks = []
    while keys := made.check_states.find_due_keys(100):
        looks.append(keys)
        now = [replace(one) if one.device.key in keys else one for one in now]
        made = evaluate_looks((100, *now), before=made)
    assert [len(keys) for keys in looks] == [DUE_LIMIT, DUE_LIMIT, DUE_LIMIT // 2]
    assert {f"key d{number:04}" for number in range(3)} <= looks[0]
    assert len(frozenset().union(*looks)) == devices


def test_nobody_is_looked_at_again_for_a_check_that_does_not_ask_for_it():
    assert evaluate_looks((0, ill("a", (LINK, BAD), (LATCH, GOOD)))).check_states.next_at is None


def test_a_device_that_was_away_is_as_ill_as_it_was():
    """Also under another key, and also what does not last for ever."""
    check = Check("link", ClauseCheck(clause()), recovery_threshold=LookDuration(30))
    made = evaluate_looks((0, ill("x", (check, BAD), (LATCH, BAD))), (1,))
    assert DeviceRef(A, "x") in made.check_states.absent_devices
    made = evaluate_looks((2, ill("x", (check, GOOD), (LATCH, GOOD), key="other key")), before=made)
    assert faults(made) == {"x": "link: no link"}
    made = evaluate_looks((33, ill("x", (check, GOOD), (LATCH, GOOD), key="other key")), before=made)
    assert faults(made) == {"x": "latch: no link"}
    assert not made.check_states.absent_devices


def test_the_time_it_was_away_is_no_time_it_was_well():
    check = Check("link", ClauseCheck(clause()), recovery_threshold=LookDuration(30))
    made = evaluate_looks(
        (0, ill("x", (check, BAD))), (1, ill("x", (check, GOOD))), (2,), (40, ill("x", (check, GOOD)))
    )
    assert faults(made) == {"x": "link: no link"}


def test_two_devices_in_one_place_are_two():
    one, two = ill("one", (LATCH, BAD), place="p", key="1"), ill("two", (LATCH, GOOD), place="p", key="2")
    again = ill("one", (LATCH, GOOD), place="p", key="1"), ill("two", (LATCH, GOOD), place="p", key="2")
    assert faults(evaluate_looks((0, one, two), (1, *again))) == {"one": "latch: no link", "two": ""}


def test_a_key_that_another_place_has_now_is_another_device():
    made = evaluate_looks(
        (0, ill("x", (LATCH, BAD), place="a", key="k")), (1, ill("y", (LATCH, GOOD), place="b", key="k"))
    )
    assert faults(made) == {"y": ""}
    assert faults(evaluate_looks((2, ill("x", (LATCH, GOOD), place="a", key="k")), before=made)) == {
        "x": "latch: no link"
    }
    swapped = ill("x", (LATCH, GOOD), place="a", key="m"), ill("y", (LATCH, GOOD), place="b", key="k")
    made = evaluate_looks((0, ill("x", (LATCH, BAD), place="a", key="k")), (1, *swapped))
    assert faults(made) == {"x": "latch: no link", "y": ""}


def test_a_check_that_is_taken_out_fails_no_more():
    for left in ill("x", (LINK, GOOD)), ill("x"):
        made = evaluate_looks((0, ill("x", (LATCH, BAD))), (1, left))
        assert faults(made) == {"x": ""}
        assert not list_failures(made.check_states)


def test_of_an_entry_that_is_taken_out_nothing_is_remembered():
    made = evaluate_looks((0, ill("x", (LATCH, BAD))), (1,))
    assert list_failures(made.check_states)
    assert not list_failures(evaluate_looks((2, ill("y")), before=made, entries=("example.com/b",)).check_states)


def test_the_next_life_begins_with_what_failed():
    check = Check("link", ClauseCheck(clause()), failure_threshold=LookCount(2), recovery_threshold=LookDuration(30))
    made = evaluate_looks(
        (0, ill("x", (LATCH, BAD)), ill("y", (LATCH, BAD)), ill("z", (check, GOOD))),
        (1, ill("x", (LATCH, GOOD)), ill("z", (check, BAD))),
    )
    failing = list_failures(made.check_states)
    assert failing == {A: {"x": {"latch": "no link"}, "y": {"latch": "no link"}}}
    made = evaluate_looks(
        (0, ill("x", (LATCH, GOOD)), ill("z", (check, BAD))),
        before=Evaluation(restore_check_states(save_checks(made.check_states))),
    )
    assert faults(made) == {"x": "latch: no link", "z": ""}
    assert list_failures(made.check_states) == failing


def test_clearing():
    bad = [(LATCH, BAD), (Check("other", ClauseCheck(clause()), recovery_threshold=None), BAD)]
    made = evaluate_looks((0, ill("x", *bad), ill("y", *bad)), (1, ill("x", *bad)))

    def clear(at, check):
        return made.check_states.clear_checks(lambda spot, ward: at in (spot.key_or_location, ward.location), check)

    conditions, names = clear("x", "latch")
    assert names == {"latch"}
    assert list_failures(conditions) == {A: {"x": {"other": "no link"}, "y": {"latch": "no link", "other": "no link"}}}
    assert list_failures(clear("y", None)[0]) == {A: {"x": {"latch": "no link", "other": "no link"}}}
    assert clear("z", None) == (made.check_states, frozenset())
    assert clear("x", "nothing")[1] == frozenset()
    # A latch that is cleared falls again if the next look says so.
    made = replace(made, check_states=conditions)
    assert faults(evaluate_looks((2, ill("x", (LATCH, GOOD))), before=made)) == {"x": ""}
    assert faults(evaluate_looks((2, ill("x", (LATCH, BAD))), before=made)) == {"x": "latch: no link"}


def test_a_single_look_says_what_is_bad_now():
    """Whatever time it takes to fail."""
    looked = map_candidates(ill("x", (LINK, GOOD), (SLOW, BAD)), ill("y", (SLOW, BAD), fault="/dev/x: none"), ill("z"))
    assert {one.ids[0]: str(one.unhealthy_reason) for one in evaluate_one_look(looked)[OF].values()} == {
        "x": "slow: no link",
        "y": "/dev/x: none",
        "z": "",
    }


def test_a_look_asks_the_checks_of_what_it_looks_at():
    holds = clause(line("state", "ready"), name="match")
    entry = spec(checks=(Check("link", ClauseCheck(holds)),))
    facts = Facts({"key x": {"serial": "x", "state": "ready"}, "key y": {"serial": "y", "state": "off"}})
    listing = Listing({PCI: (host("x"), host("y"))})
    first = update_inventory([entry], listing, facts)
    lists = build_lists(
        first,
        [entry],
        frozenset(),
        {},
        0,
        candidates=evaluate(Evaluation(), first.get_resource_candidates(), (A,), 0, APART).candidates,
    ).lists
    assert [(one.id, one.health, str(one.reason)) for one in lists[A].devices] == [
        ("x", Health.HEALTHY, ""),
        ("y", Health.UNHEALTHY, "link: state = 'ready', here off"),
    ]
    # By key: of that device alone; without: nothing.
    second = update_inventory([entry], listing, facts, first, DirtySet(keys=frozenset({"key x"})))
    before, now = first.get_resource_candidates()[OF], second.get_resource_candidates()[OF]
    assert now["key x"] is not before["key x"]
    assert now["key y"] is before["key y"]
    assert (
        update_inventory([entry], listing, facts, first, DirtySet(keys=frozenset({"gone"}))).get_resource_candidates()
        == first.get_resource_candidates()
    )
    assert (
        update_inventory([entry], listing, facts, first, ALL_DIRTY).get_resource_candidates()
        == first.get_resource_candidates()
    )


STEPS = st.lists(
    st.tuples(
        st.sampled_from([0.0, 1.0, 7.0]),
        st.dictionaries(st.sampled_from("xy"), st.tuples(st.sampled_from("kl"), st.sampled_from([GOOD, BAD]))),
    ),
    max_size=12,
)


@given(STEPS)
def test_a_latch_holds_whatever_comes_and_goes(steps):
    made, now, fallen = Evaluation(), 0.0, set()
    for passed, there in steps:
        now += passed
        looks = [ill(place, (LATCH, outcome), key=f"{place}{key}") for place, (key, outcome) in there.items()]
        made = evaluate_looks((now, *looks), before=made)
        fallen |= {place for place, (_, outcome) in there.items() if outcome is BAD}
        assert {name for name, fault in faults(made).items() if fault} == fallen & set(there)
        assert set(list_failures(made.check_states).get(A, {})) == fallen
        assert set(made.check_states.due_times) == set()


def test_lists_and_looks_fit_together():
    """Assembled from what is concluded, with what was settled: what heals is healed, and nothing else is touched."""
    entry = spec(checks=(LINK,))
    told, settled, made = {}, None, Evaluation()
    for now, outcome in enumerate((GOOD, BAD, GOOD)):
        x, y = ill("x", (LINK, outcome)), ill("y", (LINK, GOOD))
        at = look_at(x, y)
        made = evaluate(made, at.get_resource_candidates(), (A,), now, APART)
        assembly = build_lists(at, [entry], frozenset(), told, now, unchanged_lists=settled, candidates=made.candidates)
        told, settled = assembly.lists, assembly.unchanged_lists
        assert [str(one.reason) for one in told[A].devices] == ["link: no link" if outcome is BAD else "", ""]


def test_what_failed_of_several_in_one_place_is_all_remembered():
    one, two = ill("one", (LATCH, BAD), place="p", key="1"), ill("two", (LINK, BAD), (LATCH, GOOD), place="p", key="2")
    assert list_failures(evaluate_looks((0, one, two), (1,)).check_states) == {
        A: {"p": {"latch": "no link", "link": "no link"}}
    }


def test_of_places_that_nobody_comes_back_to_so_many_are_remembered(monkeypatch):
    monkeypatch.setattr(evaluation_step, "_ABSENT_LIMIT", 3)
    made = Evaluation()
    for number in range(9):
        made = evaluate_looks((number, ill(f"d{number}", (LINK, BAD))), before=made)
    assert [spot.key_or_location for spot in made.check_states.absent_devices] == ["d5", "d6", "d7"]
    assert list(made.check_states.present_devices) == [DeviceRef(A, "key d8")]


AWAITED = CheckResult(CheckVerdict.PENDING, "no answer yet")


def test_until_the_first_answer_it_is_not_healthy_and_nothing_is_counted():
    looks = [(at, ill("new", (LINK, AWAITED), (LATCH, GOOD))) for at in range(3)]
    made = evaluate_looks(*looks)
    assert faults(made) == {"new": "link: no answer yet"}
    assert list_failures(made.check_states) == {}
    assert faults(evaluate_looks((3, ill("new", (LINK, GOOD), (LATCH, GOOD))), before=made)) == {"new": ""}


def test_what_is_known_stays_while_another_answer_is_awaited():
    """Another question, because a word in it has changed, is no fault, and heals none."""
    for first, fault in ((GOOD, ""), (BAD, "link: no link")):
        made = evaluate_looks((0, ill("it", (LINK, first))), (1, ill("it", (LINK, AWAITED))))
        assert faults(made) == {"it": fault}


def test_what_failed_in_the_last_life_fails_until_an_answer_says_otherwise():
    before = Evaluation(restore_check_states(SavedChecks({A: {"it": {"link": "no link"}}})))
    made = evaluate_looks((0, ill("it", (LINK, AWAITED))), before=before)
    assert faults(made) == {"it": "link: no link"}
    assert faults(evaluate_looks((1, ill("it", (LINK, GOOD))), before=made)) == {"it": ""}


def test_a_single_look_does_not_know_what_is_awaited():
    assert (
        str(next(iter(evaluate_one_look(map_candidates(ill("it", (LINK, AWAITED))))[OF].values())).unhealthy_reason)
        == ""
    )


ECC = Check("ecc", CounterCheck("errors"), recovery_threshold=None)
XID = Check("xid", KernelLogCheck(Log(message("Xid {number}: {code:int}"), recovery_s=600.0)), recovery_threshold=None)


def record_lines(*records, follow=(XID.log,)):
    journal = KernelLogHistory()
    journal.set_logs(follow)
    told = {one for record in records for one in journal.add_record(record)}
    return journal, told


def ear(number):
    return CheckResult(CheckVerdict.PASS, log_keys=frozenset({(number,)}))


def test_a_line_is_told_without_a_look_and_stirs_nobody_else():
    one, two = ill("one", (SLOW, BAD), (XID, ear(1))), ill("two", (XID, ear(2)))
    before = evaluate(
        evaluate_looks((-1, ill("one", (SLOW, GOOD), (XID, ear(1))))), map_candidates(one, two), (A,), 0, APART
    )
    journal, told = record_lines(LogRecord(1, 1.0, "Xid 1: 79"))
    made = evaluate(before, before.original_candidates, (A,), 1, APART, log_history=journal, changed_log_keys=told)
    assert faults(made) == {"one": "xid: Xid 1: 79", "two": ""}
    assert made.candidates[OF]["key two"] is two
    assert made.check_states.due_times[DeviceRef(A, "key one")] == 5  # when it was to be looked at, it is still
    slow = made.check_states.present_devices[DeviceRef(A, "key one")].check_states["slow"]
    assert slow == before.check_states.present_devices[DeviceRef(A, "key one")].check_states["slow"]
    assert evaluate(made, made.original_candidates, (A,), 2, APART, log_history=journal, changed_log_keys=()) is made
    assert (
        evaluate(
            made, made.original_candidates, (A,), 2, APART, log_history=journal, changed_log_keys={(XID.log, (9,))}
        )
        is made
    )


def test_who_has_left_is_not_spoken_to_and_who_comes_hears_what_was_said():
    journal, told = record_lines(LogRecord(1, 0.0, "Xid 1: 79"))
    before = evaluate(Evaluation(), map_candidates(ill("one", (XID, ear(1)))), (A,), 0, APART, log_history=journal)
    assert faults(before) == {"one": "xid: Xid 1: 79"}
    gone = evaluate(before, map_candidates(), (A,), 1, APART, log_history=journal, changed_log_keys=told)
    assert gone.subscribers == {}
    back = evaluate(gone, map_candidates(ill("one", (XID, ear(1)))), (A,), 2, APART, log_history=journal)
    assert faults(back) == {"one": "xid: Xid 1: 79"}
    assert faults(evaluate(gone, map_candidates(ill("one", (XID, ear(1)))), (A,), 700, APART, log_history=journal)) == {
        "one": ""
    }


def test_what_the_next_life_knows():
    journal, _ = record_lines(LogRecord(3, 0.0, "Xid 1: 79"), follow=[replace(XID.log, latch=True)])
    latching = replace(XID, criterion=KernelLogCheck(replace(XID.log, latch=True)))
    both = ill("one", (latching, ear(1)), (ECC, CheckResult(CheckVerdict.PASS, count=7)))
    made = evaluate(Evaluation(), map_candidates(both), (A,), 0, APART, log_history=journal)
    memory = save_checks(made.check_states)
    assert memory == SavedChecks(
        {A: {"one": {"xid": "Xid 1: 79"}}}, {A: {"one": {"xid": True}}}, {A: {"one": {"ecc": 7}}}
    )
    cleared, names = made.check_states.clear_checks(lambda spot, ward: True, None, 3)
    assert names == {"xid"}
    counted, number = {A: {"one": {"ecc": 7}}}, {A: {"one": {"xid": 3}}}
    assert save_checks(cleared) == SavedChecks(
        counter_values=counted, cleared_lines=number, healthy_locations={A: {"one"}}
    )
    for before, expected in ((memory, "xid: Xid 1: 79"), (save_checks(cleared), "")):
        again = Evaluation(restore_check_states(before))
        made = evaluate(again, map_candidates(both), (A,), 0, APART, log_history=journal)
        assert faults(made) == {"one": expected}
        assert save_checks(made.check_states) == before
    grown = ill("one", (latching, ear(1)), (ECC, CheckResult(CheckVerdict.PASS, count=9)))
    made = evaluate(
        Evaluation(restore_check_states(save_checks(cleared))),
        map_candidates(grown),
        (A,),
        0,
        APART,
        log_history=journal,
    )
    assert faults(made) == {"one": "ecc: errors grew from 7 to 9"}


def test_of_two_counters_in_one_place_none_is_remembered():
    one = ill("x", (ECC, CheckResult(CheckVerdict.PASS, count=7)), place="p", key="k1")
    two = ill("y", (ECC, CheckResult(CheckVerdict.PASS, count=9)), place="p", key="k2")
    made = evaluate(Evaluation(), map_candidates(one, two), (A,), 0, APART)
    assert save_checks(made.check_states).counter_values == {}


BORNE = Check("borne", ClauseCheck(clause()), failure_threshold=LookCount(2), recovery_threshold=LookDuration(30))


def test_what_is_ill_at_the_first_look_is_never_told_to_be_well():
    """At the start, and when it is plugged in: trip is borne with what was well."""
    made = evaluate_looks((0, ill("x", (BORNE, BAD)), ill("y", (BORNE, GOOD))))
    assert faults(made) == {"x": "borne: no link", "y": ""}
    made = evaluate_looks((1, ill("x", (BORNE, BAD)), ill("y", (BORNE, BAD)), ill("z", (BORNE, BAD))), before=made)
    assert faults(made) == {"x": "borne: no link", "y": "", "z": "borne: no link"}
    made = evaluate_looks((2, *(ill(name, (BORNE, GOOD)) for name in "xyz")), before=made)
    assert faults(made) == {"x": "borne: no link", "y": "", "z": ""}  # x failed long enough: that takes recover


def test_a_check_that_comes_to_a_device_begins_as_it_says_first():
    made = evaluate_looks((0, ill("x", (LINK, GOOD))), (1, ill("x", (LINK, GOOD), (BORNE, BAD))))
    assert faults(made) == {"x": "borne: no link"}


def test_who_is_plugged_in_again_begins_again():
    made = evaluate_looks((0, ill("x", (BORNE, GOOD))), (1,), (2, ill("x", (BORNE, BAD))))
    assert faults(made) == {"x": "borne: no link"}
    assert faults(evaluate_looks((3,), (4, ill("x", (BORNE, GOOD))), before=made)) == {"x": ""}  # and had not failed


def next_life(made):
    return Evaluation(restore_check_states(save_checks(made.check_states)))


def test_a_restart_is_no_beginning():
    """Who was well is borne with as before, and waits for no answer; who was never well is not; once, at the start."""
    first = [ill("well", (BORNE, GOOD)), ill("never", (BORNE, BAD)), ill("both", (BORNE, GOOD), (LATCH, BAD))]
    life = evaluate_looks((0, *first))
    assert save_checks(life.check_states).healthy_locations == {A: {"well"}}
    bad = [ill(name, (BORNE, BAD)) for name in ("well", "never", "new")]
    made = evaluate_looks((100, *bad), before=next_life(life))
    assert faults(made) == {"well": "", "never": "borne: no link", "new": "borne: no link"}
    assert save_checks(made.check_states).healthy_locations == {A: {"well"}}
    assert faults(evaluate_looks((101, ill("well", (BORNE, BAD))), before=made)) == {"well": "borne: no link"}
    assert faults(evaluate_looks((100, ill("well", (BORNE, AWAITED))), before=next_life(life))) == {"well": ""}
    assert faults(evaluate_looks((100, ill("other")), (101, bad[0]), before=next_life(life))) == {
        "well": "borne: no link"
    }
    nothing = evaluate(next_life(life), {}, (A,), 100, APART)  # nobody is there at the start
    assert faults(evaluate_looks((101, bad[0]), before=nothing)) == {"well": "borne: no link"}
    assert evaluate(nothing, {}, (A,), 101, APART) is nothing


def test_of_two_in_one_place_both_have_to_have_been_well():
    one, two = (ill(key, (LINK, GOOD), place="p", key=key) for key in ("k1", "k2"))
    bad = ill("k2", (LINK, BAD), place="p", key="k2")
    assert save_checks(evaluate_looks((0, one, two)).check_states).healthy_locations == {A: {"p"}}
    for both in ((one, bad), (bad, one)):
        assert save_checks(evaluate_looks((0, *both)).check_states).healthy_locations == {}


def test_who_waits_for_a_first_answer_waits_on_after_a_restart():
    waiting = ill("x", (LINK, GOOD), (BORNE, AWAITED))
    life = evaluate_looks((0, waiting), (1, replace(waiting)))
    for _ in range(2):
        assert faults(life) == {"x": "borne: no answer yet"}
        assert save_checks(life.check_states).healthy_locations == {}
        life = evaluate_looks((100, replace(waiting)), (101, replace(waiting)), before=next_life(life))
    assert faults(evaluate_looks((102, ill("x", (LINK, GOOD), (BORNE, GOOD))), before=life)) == {"x": ""}
    assert faults(evaluate_looks((102, ill("x", (LINK, GOOD), (BORNE, BAD))), before=life)) == {"x": "borne: no link"}


def test_nothing_said_yet_is_not_well():
    life = evaluate_looks(
        (0, ill("x", (LINK, AWAITED))), (1, ill("x", (LINK, AWAITED), (BORNE, CheckResult(CheckVerdict.IGNORED))))
    )
    assert save_checks(life.check_states) == SavedChecks()
    assert faults(evaluate_looks((2, ill("x", (BORNE, BAD))), before=life)) == {"x": "borne: no link"}


def test_what_is_remembered_where_nothing_changed_stays_the_object_it_was():
    """And what was remembered before is as it was: it may just be written."""
    remembering = SavedChecksBuilder()
    many = [ill(name, (LATCH, BAD), (ECC, CheckResult(CheckVerdict.PASS, count=1))) for name in ("x", "y", "gone")]
    made = evaluate_looks((0, *many))
    before = remembering.update(made.check_states)
    assert remembering.update(made.check_states) is before
    now = remembering.update(
        evaluate_looks((1, many[0], ill("y", (ECC, CheckResult(CheckVerdict.PASS, count=2)))), before=made).check_states
    )
    assert now.counter_values == {A: {"x": {"ecc": 1}, "y": {"ecc": 2}}}
    assert set(before.counter_values[A]) == {"x", "y", "gone"} == set(before.failure_reasons[A])
    assert before.counter_values[A]["y"] == {"ecc": 1}


ANSWERS = [(LATCH, BAD), (LINK, GOOD), (LINK, BAD), (BORNE, AWAITED), (ECC, CheckResult(CheckVerdict.PASS, count=3))]
LIVES = st.tuples(st.sampled_from("pq"), st.lists(st.sampled_from(ANSWERS), max_size=2))  # a place, what is said there


@given(st.lists(st.dictionaries(st.sampled_from(["k1", "k2", "k3"]), LIVES), max_size=5))
def test_what_is_remembered_is_as_if_all_were_gone_through(looks):
    remembering, made = SavedChecksBuilder(), Evaluation()
    for now, those in enumerate(looks):
        made = evaluate_looks(
            (now, *(ill(key, *said, place=place, key=key) for key, (place, said) in those.items())), before=made
        )
        assert remembering.update(made.check_states) == save_checks(made.check_states)


SAID = [GOOD, BAD, CheckResult(CheckVerdict.IGNORED), CheckResult(CheckVerdict.NOT_APPLICABLE)]
COUNTED = [CheckResult(CheckVerdict.PASS, count=count) for count in (0, 3, 7)]
ROWS = [
    (Check("looks", ClauseCheck(clause()), failure_threshold=LookCount(2), recovery_threshold=LookCount(3)), SAID),
    (
        Check(
            "lasting", ClauseCheck(clause()), failure_threshold=LookDuration(10), recovery_threshold=LookDuration(10)
        ),
        SAID,
    ),
    (LATCH, SAID),
    (
        Check("counter", CounterCheck("errors"), failure_threshold=LookCount(2), recovery_threshold=LookCount(2)),
        COUNTED,
    ),
    (
        Check(
            "counter", CounterCheck("errors"), failure_threshold=EventRate(3, 10), recovery_threshold=LookDuration(10)
        ),
        COUNTED,
    ),
]


@given(st.sampled_from(ROWS), st.lists(st.integers(0, 3), min_size=1, max_size=6))
def test_who_is_at_rest_turns_by_no_look_that_says_the_same(row, numbers):
    check, outcomes = row
    said = [outcomes[number % len(outcomes)] for number in numbers]
    made = evaluate_looks(*((now, ill("one", (check, outcome))) for now, outcome in enumerate(said)))
    restless = made.check_states.find_undecided_keys()
    before = faults(made)
    for now in range(100, 200, 20):
        made = evaluate_looks((now, ill("one", (check, said[-1]))), before=made)
        assert faults(made) == before or restless == {"key one"}


def test_a_row_that_has_begun_is_restless_and_so_is_what_fails():
    row = Check("looks", ClauseCheck(clause()), failure_threshold=LookCount(2), recovery_threshold=LookCount(2))
    assert evaluate_looks((0, ill("one", (row, GOOD)))).check_states.find_undecided_keys() == frozenset()
    assert evaluate_looks((0, ill("one", (row, BAD)))).check_states.find_undecided_keys() == {"key one"}
    assert evaluate_looks(
        (0, ill("one", (row, BAD))), (1, ill("one", (row, BAD)))
    ).check_states.find_undecided_keys() == {"key one"}


def test_ten_thousand_flaps_of_a_thousand_devices():
    """What is remembered stays as much as it was, an event steps what it touches, and the end is as it is."""
    devices = 1000
    now = [ill(f"d{number}", (LINK, GOOD), (XID, ear(number))) for number in range(devices)]
    made = evaluate(Evaluation(), map_candidates(*now), (A,), 0, APART)
    journal, _ = record_lines()
    size = len(made.subscribers)
    for flap in range(100):
        first, told = flap % 10 * 100, set()
        for number in range(first, first + 100):
            now[number] = ill(f"d{number}", (LINK, BAD if flap % 20 < 10 else GOOD), (XID, ear(number)))
            told |= journal.add_record(LogRecord(flap * 100 + number % 100, float(flap), f"Xid {number}: {flap}"))
        before = made
        made = evaluate(made, map_candidates(*now), (A,), flap, APART, log_history=journal, changed_log_keys=told)
        others = (f"key d{number}" for number in range(devices) if not first <= number < first + 100)
        assert all(made.candidates[OF][key] is before.candidates[OF][key] for key in others)
        assert (
            len(made.subscribers),
            len(made.check_states.present_devices),
            len(made.check_states.absent_devices),
        ) == (size, devices, 0)
    assert {fault.partition(":")[0] for fault in faults(made).values()} == {"xid"}
    later = evaluate(made, map_candidates(*(replace(one) for one in now)), (A,), 10_000, APART, log_history=journal)
    assert set(faults(later).values()) == {""}
