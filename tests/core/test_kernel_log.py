"""What is heard in the kernel log: who is meant, how many lines it takes, what a person clears."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.entry.check import Check, CheckResult, CheckVerdict, OnUnknown, StepContext
from agent.core.entry.check_state import HEALTHY
from agent.core.entry.kernel_log import KEYS_LIMIT, EventRate, KernelLogHistory, Log, LogRecord
from agent.core.entry.kernel_log_check import KernelLogCheck
from agent.core.language.template import Slot
from agent.core.language.value import Absent, ValueType
from tests.core.builders import clause, line
from tests.core.test_log_pattern import message

XID = message("Xid {number}: {code:int}")
ONE, TWO = frozenset({(1,)}), frozenset({(2,)})


def code(*codes):
    return clause(line("code", codes[0], ValueType.INT))


def xid(number, at, who, said):
    return LogRecord(number, at, f"Xid {who}: {said}")


class Listener:
    """A check of one device, told in one go what happened, or bit by bit."""

    def __init__(self, check, keys=ONE, reason=()):
        self.check = check
        self.outcome = CheckResult(CheckVerdict.PASS, log_keys=keys, log_reason=reason)
        self.journal = KernelLogHistory()
        self.journal.set_logs([check.log])
        self.condition = HEALTHY
        self.again = None

    def hear(self, *records):
        for record in records:
            self.journal.add_record(record)
        return self

    def at(self, now, outcome=None):
        self.condition, self.again = self.check.criterion.step(
            self.check, self.condition, outcome or self.outcome, StepContext(now, 0.0, self.journal)
        )
        return self.condition.failing

    def clear(self):
        self.condition = type(HEALTHY)(cleared_line=self.journal.last_number)


def check(**more):
    on_unknown = more.pop("on_unknown", OnUnknown.UNHEALTHY)
    return Check("xid", KernelLogCheck(Log(XID, **more)), recovery_threshold=None, on_unknown=on_unknown)


def test_a_line_is_of_whom_it_names_and_of_nobody_else():
    journal = KernelLogHistory()
    log = check().log
    assert journal.set_logs([log]) is True
    assert journal.add_record(xid(1, 0, 1, 79)) == {(log, (1,))}
    assert journal.add_record(LogRecord(2, 0, "something else")) == frozenset()
    assert journal.find_matches(log, ONE)
    assert journal.find_matches(log, TWO) == ()


def test_a_line_is_heard_once_however_often_it_is_read():
    """The backlog is read again when an entry comes that listens for something else."""
    listener = Listener(check(event_rate=EventRate(2, 60)))
    listener.hear(xid(1, 0, 1, 79), xid(1, 0, 1, 79))
    assert not listener.at(0)
    other = check(include_clause=code(3)).log
    assert listener.journal.set_logs([listener.check.log, other]) is True
    assert listener.journal.set_logs([listener.check.log, other]) is False
    listener.hear(xid(1, 0, 1, 3))
    assert listener.journal.find_matches(other, ONE)
    assert not listener.at(0)


def test_what_nobody_listens_for_any_more_is_forgotten():
    listener = Listener(check()).hear(xid(1, 0, 1, 79))
    listener.journal.set_logs([])
    assert not listener.journal.has_logs
    assert not listener.at(0)


@pytest.mark.parametrize(
    ("how", "codes", "failing"),
    [
        pytest.param({}, [13], True, id="every line counts"),
        pytest.param({"ignore_clause": code(13)}, [13], False, id="but those that are ignored"),
        pytest.param({"ignore_clause": code(13)}, [13, 79], True, id="and no others"),
        pytest.param({"include_clause": code(48)}, [79, 13], False, id="or only these"),
        pytest.param({"include_clause": code(48)}, [79, 48], True, id="these"),
    ],
)
def test_which_lines_count(how, codes, failing):
    listener = Listener(check(**how))
    listener.hear(*(xid(number, 0, 1, said) for number, said in enumerate(codes)))
    assert listener.at(0) is failing


def test_it_heals_some_time_after_the_last_line_that_counts():
    listener = Listener(check(ignore_clause=code(13), recovery_s=600.0))
    listener.hear(xid(1, 100, 1, 79))
    assert listener.at(100)
    assert listener.again == 700
    listener.hear(xid(2, 500, 1, 79), xid(3, 1000, 1, 13))
    assert listener.at(1099)
    assert listener.again == 1100
    assert not listener.at(1100)
    assert listener.again is None
    listener.hear(xid(4, 1200, 1, 79))
    assert listener.at(1200)


def test_a_harmless_line_heals_nothing():
    """The fault of a widely used plugin: the last event decided."""
    listener = Listener(check(latch=code(79), recovery_s=600.0))
    listener.hear(xid(1, 0, 1, 79), xid(2, 1, 1, 13))
    assert listener.at(1)
    assert listener.at(1e6)
    assert listener.condition.latched


def test_never_unless_it_is_said():
    listener = Listener(check()).hear(xid(1, 0, 1, 79))
    assert listener.at(1e9)
    assert listener.again is None


def test_some_lines_within_a_time():
    listener = Listener(check(event_rate=EventRate(3, 600), recovery_s=3600.0))
    assert not listener.hear(xid(1, 0, 1, 79), xid(2, 500, 1, 79)).at(500)
    assert not listener.hear(xid(3, 700, 1, 79)).at(700)
    assert listener.hear(xid(4, 1100, 1, 79)).at(1100)
    assert listener.again == 4700
    assert not listener.at(4700)
    assert not listener.hear(xid(5, 4700, 1, 79), xid(6, 4701, 1, 79)).at(4701)
    assert listener.hear(xid(7, 4702, 1, 79)).at(4702)


def test_a_line_that_latches_fails_by_itself():
    listener = Listener(check(event_rate=EventRate(3, 600), latch=code(79)))
    assert listener.hear(xid(1, 0, 1, 79)).at(0)


def test_what_is_cleared_stays_cleared_and_a_new_line_counts():
    for how in ({}, {"latch": True}, {"recovery_s": 600.0}, {"event_rate": EventRate(2, 10), "recovery_s": 600.0}):
        listener = Listener(check(**how)).hear(xid(1, 0, 1, 79), xid(2, 0, 1, 79))
        assert listener.at(0), how
        listener.clear()
        assert not listener.at(1), how
        again = Listener(check(**how)).hear(xid(1, 0, 1, 79), xid(2, 0, 1, 79))  # the next life reads the backlog
        again.condition = listener.condition
        assert not again.at(1), how
        again.hear(xid(3, 2, 1, 79))
        assert again.at(2) is ("event_rate" not in how), how
        again.hear(xid(4, 2, 1, 79))
        assert again.at(2), how


def test_what_is_said_of_it():
    listener = Listener(check(recovery_s=60.0, latch=code(79)), reason=("Xid ", Slot("code", (), 0), " of ours"))
    listener.hear(xid(1, 0, 1, 8)).at(0)
    assert listener.condition.reason == "Xid 8 of ours"
    listener.hear(xid(2, 1, 1, 9)).at(1)
    assert listener.condition.reason == "Xid 8 of ours"  # what a failing device says is no news
    listener.hear(xid(3, 2, 1, 79)).at(2)
    assert listener.condition.reason == "Xid 79 of ours"  # but why it will not heal by itself
    plain = Listener(check()).hear(LogRecord(1, 0, f"Xid 1: 5{'!' * 4000}"))
    plain.at(0)
    assert plain.condition.reason.startswith("Xid 1: 5!!!")
    assert len(plain.condition.reason) <= 200


def test_a_log_that_cannot_be_read():
    listener = Listener(check())
    listener.journal.read_error = Absent("/dev/kmsg cannot be read: not permitted")
    assert listener.at(0)
    assert listener.condition.reason == "the kernel log: /dev/kmsg cannot be read: not permitted"
    listener.journal.read_error = None
    assert not listener.at(1)
    for on_unknown in (OnUnknown.HEALTHY, OnUnknown.KEEP):
        other = Listener(check(on_unknown=on_unknown))
        other.journal.read_error = Absent("x")
        assert not other.at(0)
    latched = Listener(check()).hear(xid(1, 0, 1, 79))
    assert latched.at(0)
    latched.journal.read_error = Absent("x")
    assert latched.at(1)
    assert latched.condition.reason == "Xid 1: 79"


@pytest.mark.parametrize(
    ("says", "failing"),
    [
        (CheckVerdict.FAIL, True),
        (CheckVerdict.PASS, False),
        (CheckVerdict.IGNORED, False),
        (CheckVerdict.NOT_APPLICABLE, False),
    ],
)
def test_a_device_of_which_nobody_can_tell_who_it_is(says, failing):
    listener = Listener(check()).hear(xid(1, 0, 1, 79))
    assert listener.at(0, CheckResult(says, "address: absent")) is failing
    assert listener.at(0)
    assert listener.at(1, CheckResult(says, "address: absent"))  # latched


def test_a_line_that_goes_on_counts_once():
    journal = KernelLogHistory()
    log = check().log
    journal.set_logs([log])
    assert journal.add_record(LogRecord(1, 0, "Xid ")) == frozenset()
    assert journal.add_record(LogRecord(2, 0, "Xid 1: 79", is_continuation=True)) == {(log, (1,))}
    assert journal.add_record(LogRecord(3, 0, "Xid 1: 79 and more", is_continuation=True)) == frozenset()
    assert journal.add_record(LogRecord(4, 0, "Xid 1: 79 and more")) == {(log, (1,))}


def test_what_is_remembered_is_bounded():
    listener = Listener(check(event_rate=EventRate(3, 1e9)))
    for number in range(3 * KEYS_LIMIT):
        listener.hear(xid(number, number, number, 79))
    log = listener.check.log
    assert sum(bool(listener.journal.find_matches(log, {(who,)})) for who in range(3 * KEYS_LIMIT)) == KEYS_LIMIT
    for number in range(10_000):
        listener.hear(xid(4 * KEYS_LIMIT + number, number, 5, 79))
    (heard,) = listener.journal.find_matches(log, {(5,)})
    assert len(heard.recent_lines) == 3


LINES = st.lists(st.tuples(st.sampled_from([0.0, 1.0, 5.0, 11.0, 40.0]), st.sampled_from([8, 13, 79])), max_size=25)
CHECKS = st.builds(
    lambda trip, recover, latch: check(ignore_clause=code(13), event_rate=trip, recovery_s=recover, latch=latch),
    st.sampled_from([EventRate(1, 0.0), EventRate(2, 10.0), EventRate(3, 30.0)]),
    st.sampled_from([None, 5.0, 30.0]),
    st.sampled_from([False, True, code(79)]),
)


def space_lines(lines):
    now, made = 0.0, []
    for number, (passed, said) in enumerate(lines):
        now += passed
        made.append((number, now, said))
    return made


def by_history(log, lines, now):
    """The same, from everything that was ever said."""
    row, failing, latched = [], False, False
    for _, at, said in lines:
        if said == 13:
            continue
        if row and log.recovery_s is not None and at >= row[-1] + log.recovery_s:
            row, failing = [], False
        row.append(at)
        latched = latched or log.latch is True or (log.latch is not False and said == 79)
        failing = failing or (
            len(row) >= log.event_rate.number and at <= row[-log.event_rate.number] + log.event_rate.seconds
        )
    return latched or (failing and (log.recovery_s is None or now < row[-1] + log.recovery_s))


@given(CHECKS, LINES, st.sampled_from([0.0, 4.0, 29.0, 100.0]))
def test_it_is_what_history_says_heard_at_once_or_bit_by_bit(one, said, later):
    lines = space_lines(said)
    now = (lines[-1][1] if lines else 0.0) + later
    records = [xid(number, at, 1, code_) for number, at, code_ in lines]
    at_once, slowly = Listener(one).hear(*records), Listener(one)
    for record in records:
        slowly.hear(record).at(record.monotonic_s)
    assert at_once.at(now) is slowly.at(now) is by_history(one.log, lines, now)
    assert slowly.again is None or slowly.again > now


@given(CHECKS, LINES, LINES)
def test_after_a_person_cleared_it_only_new_lines_count(one, said, more):
    lines = space_lines([*said, *more])
    listener = Listener(one).hear(*(xid(*each[:2], 1, each[2]) for each in lines[: len(said)]))
    now = lines[len(said) - 1][1] if said else 0.0
    listener.at(now)
    listener.clear()
    assert not listener.at(now)
    for number, at, what in lines[len(said) :]:
        listener.hear(xid(number, at, 1, what))
    end = lines[-1][1] if lines else 0.0
    if listener.at(end):
        assert by_history(one.log, lines[len(said) :], end)
