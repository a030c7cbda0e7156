"""Conditions: whether a check fails now. An automaton over what looks say and when; it asks no clock.

A look in which nothing has changed ends every row: only looks in a row fail or recover, and of these only such as lie
apart count as several. A row that began at one look is one look long, whenever the last one ended.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf

from agent.core.entry.check import After, Check, Looks, Outcome, Says


@dataclass(frozen=True, slots=True)
class Condition:
    """Where a check stands.

    reason: what the look said that made it fail. It stays: what a failing device says afterwards is no news.
    since: when the row began of looks that say the opposite; None if the last one did not.
    looks, counted_at: how many of these count, and when the last of them was. answer: the one that it rested on.
    """

    failing: bool = False
    reason: str = ""
    since: float | None = None
    looks: int = 0
    counted_at: float = -inf
    answer: int | None = None


HEALTHY = Condition()


def step(
    check: Check, condition: Condition, outcome: Outcome, now: float, apart: float
) -> tuple[Condition, float | None]:
    """The condition after a look, and when to look again without an event; None if that is not needed.

    Args:
        check: how much it takes.
        condition: the condition before it.
        outcome: what the look says.
        now: monotonic seconds.
        apart: seconds between looks that count as two, for a check that does not say how often to look.
    """
    after = _stepped(check, condition, outcome, now, apart if check.every is None else check.every)
    times = [] if check.every is None else [now + check.every]
    goal = _goal(check, after)
    if after.since is not None and goal is not None:
        if not isinstance(goal, Looks):
            times.append(after.since + goal.seconds)
        elif check.every is not None:
            times.append(after.counted_at + check.every)
    return after, min((at for at in times if at > now), default=None)


def _goal(check: Check, condition: Condition) -> After | None:
    """What it takes to turn."""
    return check.recover if condition.failing else check.trip


def _stepped(check: Check, condition: Condition, outcome: Outcome, now: float, apart: float) -> Condition:
    goal = _goal(check, condition)
    if outcome.says in {Says.NOTHING, Says.AWAITED}:
        return condition
    if outcome.says is Says.BESIDE:
        return HEALTHY if goal is not None else _still(condition)
    bad = outcome.says is Says.BAD
    if bad is condition.failing or goal is None:
        return _still(condition)
    begun = now if condition.since is None else condition.since
    apart_enough = now >= condition.counted_at + apart if outcome.answer is None else outcome.answer != condition.answer
    counts = condition.since is None or apart_enough
    looks = condition.looks + counts
    if looks >= goal.number if isinstance(goal, Looks) else now >= begun + goal.seconds:
        return Condition(bad, outcome.reason if bad else "")
    if not counts:
        return replace(condition, since=begun)
    return replace(condition, since=begun, looks=looks, counted_at=now, answer=outcome.answer)


def _still(condition: Condition) -> Condition:
    """The same with no row."""
    return condition if condition.since is None else Condition(condition.failing, condition.reason)
