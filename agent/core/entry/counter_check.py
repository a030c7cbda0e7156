"""The check kind `rises`: a counter that must not grow."""

from __future__ import annotations

from typing import ClassVar

from agent.core.entry.check import (
    Check,
    CheckResult,
    CheckVerdict,
    Criterion,
    StepContext,
    find_due_time,
    step_row,
)
from agent.core.entry.check_state import CheckState
from agent.core.entry.kernel_log import EventRate
from agent.core.entry.query import QueryFacts
from agent.core.language.value import Absent
from agent.core.struct import replace


class CounterCheck(Criterion):
    """A counter that must not grow. word: the word whose value is the counter."""

    is_decided_by_state: ClassVar[bool] = True

    word: str

    def list_words(self) -> tuple[str, ...]:
        """Return the word of the counter."""
        return (self.word,)

    def evaluate(self, check: Check, facts: QueryFacts) -> CheckResult:
        """Return the value of the counter."""
        count = facts(self.word)
        if isinstance(count, Absent):
            return check.make_unknown_result(check.join_reasons(count.prefix_reason(self.word).reason, facts))
        if not isinstance(count, int):
            return check.make_unknown_result(check.join_reasons(f"{self.word} is no number", facts))
        return CheckResult(CheckVerdict.PASS, check.join_reasons("", facts), count=count)

    def step(
        self, check: Check, state: CheckState, result: CheckResult, context: StepContext
    ) -> tuple[CheckState, float | None]:
        """See `Criterion.step`. The state after a look that could not read the counter recovers with the next value.

        Growth between the two values still counts.
        """
        if result.count is not None:
            current = self._step_count(check, state, result, result.count, context)
        else:
            current = step_row(check, replace(state, count=None, recent_growth=()), result, context)
            current = replace(
                current,
                count=state.count,
                recent_growth=state.recent_growth,
                failing_as_unknown=current.failing and (state.failing_as_unknown or not state.failing),
            )
        return current, find_due_time(check, current, context.current_time)

    def _step_count(
        self, check: Check, previous: CheckState, result: CheckResult, count: int, context: StepContext
    ) -> CheckState:
        """Return the state after a value. A counter that is lower than before has restarted, not grown."""
        if previous.failing_as_unknown:
            previous = replace(previous, failing=False, reason="", since=None, failing_as_unknown=False)
        growth = 0 if previous.count is None else max(0, count - previous.count)
        reason = result.reason or f"{self.word} grew from {previous.count} to {count}"
        recent_growth: tuple[tuple[float, int], ...] = ()
        if previous.failing or not isinstance(check.failure_threshold, EventRate):
            is_failing = growth > 0
        else:
            number, seconds = check.failure_threshold
            all_growth = (*previous.recent_growth, (context.current_time, growth)) if growth else previous.recent_growth
            recent_growth = tuple(item for item in all_growth if item[0] >= context.current_time - seconds)
            is_failing = sum(amount for _, amount in recent_growth) >= number
        growth_result = CheckResult(CheckVerdict.FAIL, reason) if is_failing else CheckResult(CheckVerdict.PASS)
        current = step_row(check, replace(previous, count=None, recent_growth=()), growth_result, context)
        return replace(current, count=count, recent_growth=() if current.failing else recent_growth)
