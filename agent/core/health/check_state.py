"""Check states: whether a check fails. An automaton over check results and their times; it does not read the clock.

A look without a change ends every row: only consecutive looks fail or recover. Looks count as several only if enough
time lies between them. A row that began at one look is one look long, whenever the previous row ended.

The first result decides the initial state. The failure threshold applies only to a check that has already passed.
"""

from __future__ import annotations

from math import inf

from agent.core.entry.check import (
    ONE_LOOK,
    REASON_LIMIT,
    Check,
    CheckResult,
    CheckVerdict,
    LookCount,
    LookThreshold,
    format_parts,
)
from agent.core.entry.counter_check import CounterCheck
from agent.core.entry.kernel_log_check import CapturedFacts, EventRate
from agent.core.health.kernel_log import KernelLogHistory, LogLine
from agent.core.language.safe_text import shorten
from agent.core.language.template import Slot
from agent.core.struct import Struct, ignore_in_comparison, replace


@ignore_in_comparison("changed_at", "evidence")
class CheckState(Struct):
    """The state of one check of one device.

    reason: the reason of the result that made the check fail. Later results do not change the reason.
    since: monotonic seconds at which the row of opposite results began; None if the last result was not opposite.
    look_count, counted_at: the number of counted looks of this row, and the time of the last one.
    query_number: the query of the last counted look.
    count, recent_growth: the last counter value, and the growth that can still matter as (time, amount).
    failing_as_unknown: the check fails only because the counter or the kernel log cannot be read.
    latched: a kernel log line made the check fail until an administrator clears it.
    cleared_line: the number of the last cleared kernel log line.
    never_healthy: the check has not passed since the device appeared. One passing look makes it healthy.
    changed_at: monotonic seconds at which the check failed or recovered; None if the check never changed.
    evidence: the kernel log line that made the check fail.
    """

    failing: bool = False
    reason: str = ""
    since: float | None = None
    look_count: int = 0
    counted_at: float = -inf
    query_number: int | None = None
    count: int | None = None
    recent_growth: tuple[tuple[float, int], ...] = ()
    failing_as_unknown: bool = False
    latched: bool = False
    cleared_line: int = -1
    never_healthy: bool = False
    changed_at: float | None = None
    evidence: str = ""


HEALTHY = CheckState()
LOG_HEAD = "the kernel log: "  # how the text of a check begins that cannot read the kernel log
NEW = CheckState(never_healthy=True)  # nothing was said of it yet


def step_check(
    check: Check, state: CheckState, result: CheckResult, current_time: float, look_distance_s: float
) -> tuple[CheckState, float | None]:
    """Return the check state after a look, and the monotonic time of the next look that needs no event, or None.

    Args:
        check: the check with its thresholds.
        state: the check state before the look.
        result: the check result of the look.
        current_time: monotonic seconds.
        look_distance_s: seconds between two looks that both count, for a check without an interval of its own.
    """
    distance_s = look_distance_s if check.interval is None else check.interval
    if not isinstance(check.criterion, CounterCheck):
        current = _step_state(check, state, result, current_time, distance_s)
    elif result.count is None:
        current = _step_unknown_counter(check, state, result, current_time, distance_s)
    else:
        current = _step_counter(check, state, result, current_time, distance_s)
    times = [] if check.interval is None else [current_time + check.interval]
    threshold = _get_threshold(check, current)
    if current.since is not None and threshold is not None:
        if not isinstance(threshold, LookCount):
            times.append(current.since + threshold.seconds)
        elif check.interval is not None:
            times.append(current.counted_at + check.interval)
    return current, min((at for at in times if at > current_time), default=None)


def step_log_check(
    check: Check, state: CheckState, result: CheckResult, log_history: KernelLogHistory, current_time: float
) -> tuple[CheckState, float | None]:
    """Return the state of a kernel log check, and the monotonic time of its recovery, or None.

    The device need not be part of the look.
    """
    if result.subscription is not None and log_history.read_error is not None:
        result = check.make_unknown_result(f"{LOG_HEAD}{log_history.read_error.reason}")
    if state.latched or result.verdict is CheckVerdict.IGNORED:
        return state, None
    healthy_state = HEALTHY if state.cleared_line < 0 else CheckState(cleared_line=state.cleared_line)
    if check.log is None or result.subscription is None:
        unknown_state = replace(healthy_state, failing=True, reason=result.reason, failing_as_unknown=True)
        return (unknown_state if result.verdict is CheckVerdict.FAIL else healthy_state), None
    failing_lines = [
        failing
        for matches in log_history.find_matches(check.log, result.subscription.keys)
        if (failing := matches.find_failing_line(check.log, state.cleared_line, current_time)) is not None
    ]
    if not failing_lines:
        return healthy_state, None
    line, recovery_time = max(failing_lines, key=lambda item: inf if item[1] is None else item[1])
    is_same_failure = state.failing and not state.failing_as_unknown and recovery_time is not None
    reason = state.reason if is_same_failure else _format_line(result.subscription.phrase, line)
    evidence = state.evidence if is_same_failure and state.evidence else shorten(line.text, REASON_LIMIT)
    return replace(
        healthy_state, failing=True, reason=reason, latched=recovery_time is None, evidence=evidence
    ), recovery_time


def set_change_time(current: CheckState, previous: CheckState, current_time: float) -> CheckState:
    """Return the state with the time of its last change. `step_check` and `step_log_check` leave this time out."""
    changed_at = previous.changed_at if current.failing is previous.failing else current_time
    return current if current.changed_at == changed_at else replace(current, changed_at=changed_at)


def _format_line(phrase: tuple[str | Slot, ...], line: LogLine) -> str:
    return shorten(format_parts(phrase, CapturedFacts(line.captured_values)) if phrase else line.text, REASON_LIMIT)


def _get_threshold(check: Check, state: CheckState) -> LookThreshold | None:
    """Return the threshold for the next change of the state."""
    if state.failing and not state.never_healthy:
        return check.recovery_threshold
    return ONE_LOOK if isinstance(check.failure_threshold, EventRate) else check.failure_threshold


def _step_counter(
    check: Check, previous: CheckState, result: CheckResult, current_time: float, distance_s: float
) -> CheckState:
    """Return the state after a look at a counter. A counter that is lower than before has restarted, not grown."""
    previous = (
        replace(previous, failing=False, reason="", since=None, failing_as_unknown=False)
        if previous.failing_as_unknown
        else previous
    )
    count = result.count or 0
    growth = 0 if previous.count is None else max(0, count - previous.count)
    word = check.criterion.word if isinstance(check.criterion, CounterCheck) else ""
    reason = result.reason or f"{word} grew from {previous.count} to {count}"
    recent_growth: tuple[tuple[float, int], ...] = ()
    if previous.failing or not isinstance(check.failure_threshold, EventRate):
        is_failing = growth > 0
    else:
        all_growth = (*previous.recent_growth, (current_time, growth)) if growth else previous.recent_growth
        recent_growth = tuple(item for item in all_growth if item[0] >= current_time - check.failure_threshold.seconds)
        is_failing = sum(amount for _, amount in recent_growth) >= check.failure_threshold.number
    growth_result = CheckResult(CheckVerdict.FAIL, reason) if is_failing else CheckResult(CheckVerdict.PASS)
    current = _step_state(
        check, replace(previous, count=None, recent_growth=()), growth_result, current_time, distance_s
    )
    return replace(current, count=count, recent_growth=() if current.failing else recent_growth)


def _step_unknown_counter(
    check: Check, previous: CheckState, result: CheckResult, current_time: float, distance_s: float
) -> CheckState:
    """Return the state after a look that could not read the counter.

    The state recovers with the next value. Growth between the two values still counts.
    """
    current = _step_state(check, replace(previous, count=None, recent_growth=()), result, current_time, distance_s)
    failing_as_unknown = current.failing and (previous.failing_as_unknown or not previous.failing)
    return replace(
        current, count=previous.count, recent_growth=previous.recent_growth, failing_as_unknown=failing_as_unknown
    )


def _step_state(
    check: Check, state: CheckState, result: CheckResult, current_time: float, distance_s: float
) -> CheckState:
    threshold = _get_threshold(check, state)
    if result.verdict in {CheckVerdict.IGNORED, CheckVerdict.PENDING}:
        return state
    if result.verdict is CheckVerdict.NOT_APPLICABLE:
        return HEALTHY if threshold is not None else _end_row(state)
    is_failing = result.verdict is CheckVerdict.FAIL
    if state.never_healthy and not is_failing:
        return HEALTHY
    if (is_failing is state.failing and not state.never_healthy) or threshold is None:
        return _end_row(state)
    if state.never_healthy and not state.failing:
        state = replace(state, failing=True, reason=result.reason)
    since = current_time if state.since is None else state.since
    is_new_look = (
        current_time >= state.counted_at + distance_s
        if result.query_number is None
        else result.query_number != state.query_number
    )
    is_counted = state.since is None or is_new_look
    look_count = state.look_count + is_counted
    if (
        look_count >= threshold.number
        if isinstance(threshold, LookCount)
        else current_time >= since + threshold.seconds
    ):
        return CheckState(is_failing, state.reason or result.reason if is_failing else "")
    if not is_counted:
        return replace(state, since=since)
    return replace(state, since=since, look_count=look_count, counted_at=current_time, query_number=result.query_number)


def _end_row(state: CheckState) -> CheckState:
    """Return the state without a row."""
    return state if state.since is None else CheckState(state.failing, state.reason)
