"""Conditions: whether a check fails now. An automaton over what looks say and when; it asks no clock.

A look in which nothing has changed ends every row: only looks in a row fail or recover, and of these only such as lie
apart count as several. A row that began at one look is one look long, whenever the last one ended.

What is said first is how a device begins: `trip` is borne with what was well, and nothing was yet.
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
    """Where a check stands.

    reason: what the look said that made it fail. It stays: what a failing device says afterwards is no news.
    since: when the row began of looks that say the opposite; None if the last one did not.
    looks, counted_at: how many of these count, and when the last of them was. answer: the one that it rested on.
    count, grown: what a counter said last, and when it grew by how much, as far as that may still matter.
    blind: what is counted or listened to cannot be told, and that alone is why it fails.
    latched: only a person makes it healthy, by a line of the kernel log. cleared: the last such line that one cleared.
    early: it was never well, and not ill for as long as it takes to fail: one look that says well is enough.
    turned: when it began to fail, or to be healthy again; None if it has always been so.
    evidence: the line of the kernel log that it rests on.
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
    check: Check, condition: CheckState, outcome: CheckResult, now: float, apart: float
) -> tuple[CheckState, float | None]:
    """The condition after a look, and when to look again without an event; None if that is not needed.

    Args:
        check: how much it takes.
        condition: the condition before it.
        outcome: what the look says.
        now: monotonic seconds.
        apart: seconds between looks that count as two, for a check that does not say how often to look.
    """
    distance = apart if check.interval is None else check.interval
    if not isinstance(check.criterion, CounterCheck):
        after = _stepped(check, condition, outcome, now, distance)
    elif outcome.count is None:
        after = _uncounted(check, condition, outcome, now, distance)
    else:
        after = _counted(check, condition, outcome, now, distance)
    times = [] if check.interval is None else [now + check.interval]
    goal = _goal(check, after)
    if after.since is not None and goal is not None:
        if not isinstance(goal, LookCount):
            times.append(after.since + goal.seconds)
        elif check.interval is not None:
            times.append(after.counted_at + check.interval)
    return after, min((at for at in times if at > now), default=None)


def step_log_check(
    check: Check, condition: CheckState, outcome: CheckResult, journal: KernelLogHistory, now: float
) -> tuple[CheckState, float | None]:
    """The same of a check that listens to the kernel log, whether or not its device was looked at."""
    if outcome.subscription is not None and journal.read_error is not None:
        outcome = check.make_unknown_result(f"{LOG_HEAD}{journal.read_error.reason}")
    if condition.latched or outcome.verdict is CheckVerdict.IGNORED:
        return condition, None
    well = HEALTHY if condition.cleared_line < 0 else CheckState(cleared_line=condition.cleared_line)
    if check.log is None or outcome.subscription is None:
        blind = replace(well, failing=True, reason=outcome.reason, failing_as_unknown=True)
        return (blind if outcome.verdict is CheckVerdict.FAIL else well), None
    found = [
        failing
        for heard in journal.find_matches(check.log, outcome.subscription.keys)
        if (failing := heard.find_failing_line(check.log, condition.cleared_line, now)) is not None
    ]
    if not found:
        return well, None
    line, over = max(found, key=lambda each: inf if each[1] is None else each[1])
    same = condition.failing and not condition.failing_as_unknown and over is not None
    said = condition.reason if same else _said(outcome.subscription.phrase, line)
    evidence = condition.evidence if same and condition.evidence else shorten(line.text, REASON_LIMIT)
    return replace(well, failing=True, reason=said, latched=over is None, evidence=evidence), over


def set_change_time(condition: CheckState, before: CheckState, now: float) -> CheckState:
    """The condition with when it turned, which those that step it leave out."""
    turned = before.changed_at if condition.failing is before.failing else now
    return condition if condition.changed_at == turned else replace(condition, changed_at=turned)


def _said(phrase: tuple[str | Slot, ...], line: LogLine) -> str:
    return shorten(format_parts(phrase, CapturedFacts(line.captured_values)) if phrase else line.text, REASON_LIMIT)


def _goal(check: Check, condition: CheckState) -> LookThreshold | None:
    """What it takes to turn."""
    if condition.failing and not condition.never_healthy:
        return check.recovery_threshold
    return ONE_LOOK if isinstance(check.failure_threshold, EventRate) else check.failure_threshold


def _counted(check: Check, before: CheckState, outcome: CheckResult, now: float, apart: float) -> CheckState:
    """After a look at a counter: one that is lower than before began anew, and has not grown."""
    before = (
        replace(before, failing=False, reason="", since=None, failing_as_unknown=False)
        if before.failing_as_unknown
        else before
    )
    count = outcome.count or 0
    more = 0 if before.count is None else max(0, count - before.count)
    word = check.criterion.word if isinstance(check.criterion, CounterCheck) else ""
    said = outcome.reason or f"{word} grew from {before.count} to {count}"
    grown: tuple[tuple[float, int], ...] = ()
    if before.failing or not isinstance(check.failure_threshold, EventRate):
        bad = more > 0
    else:
        recent = (*before.recent_growth, (now, more)) if more else before.recent_growth
        grown = tuple(each for each in recent if each[0] >= now - check.failure_threshold.seconds)
        bad = sum(by for _, by in grown) >= check.failure_threshold.number
    seen = CheckResult(CheckVerdict.FAIL, said) if bad else CheckResult(CheckVerdict.PASS)
    after = _stepped(check, replace(before, count=None, recent_growth=()), seen, now, apart)
    return replace(after, count=count, recent_growth=() if after.failing else grown)


def _uncounted(check: Check, before: CheckState, outcome: CheckResult, now: float, apart: float) -> CheckState:
    """After a look at which nobody could tell the counter: that heals by itself, and no growth is missed."""
    after = _stepped(check, replace(before, count=None, recent_growth=()), outcome, now, apart)
    blind = after.failing and (before.failing_as_unknown or not before.failing)
    return replace(after, count=before.count, recent_growth=before.recent_growth, failing_as_unknown=blind)


def _stepped(check: Check, condition: CheckState, outcome: CheckResult, now: float, apart: float) -> CheckState:
    goal = _goal(check, condition)
    if outcome.verdict in {CheckVerdict.IGNORED, CheckVerdict.PENDING}:
        return condition
    if outcome.verdict is CheckVerdict.NOT_APPLICABLE:
        return HEALTHY if goal is not None else _still(condition)
    bad = outcome.verdict is CheckVerdict.FAIL
    if condition.never_healthy and not bad:
        return HEALTHY
    if (bad is condition.failing and not condition.never_healthy) or goal is None:
        return _still(condition)
    if condition.never_healthy and not condition.failing:
        condition = replace(condition, failing=True, reason=outcome.reason)
    begun = now if condition.since is None else condition.since
    apart_enough = (
        now >= condition.counted_at + apart
        if outcome.query_number is None
        else outcome.query_number != condition.query_number
    )
    counts = condition.since is None or apart_enough
    looks = condition.look_count + counts
    if looks >= goal.number if isinstance(goal, LookCount) else now >= begun + goal.seconds:
        return CheckState(bad, condition.reason or outcome.reason if bad else "")
    if not counts:
        return replace(condition, since=begun)
    return replace(condition, since=begun, look_count=looks, counted_at=now, query_number=outcome.query_number)


def _still(condition: CheckState) -> CheckState:
    """The same with no row."""
    return condition if condition.since is None else CheckState(condition.failing, condition.reason)
