"""The check kind `log`: kernel log lines that are faults."""

from __future__ import annotations

from math import inf
from typing import ClassVar

from agent.core.entry.check import (
    REASON_LIMIT,
    Check,
    CheckResult,
    CheckVerdict,
    Criterion,
    StepContext,
    format_known_words,
    format_parts,
)
from agent.core.entry.check_state import HEALTHY, CheckState
from agent.core.entry.fact_copy import FactCopy
from agent.core.entry.kernel_log import Log
from agent.core.entry.query import QueryFacts
from agent.core.language.log_pattern import make_message_keys
from agent.core.language.safe_text import shorten
from agent.core.language.value import Absent, Scalar
from agent.core.struct import replace

LOG_HEAD = "the kernel log: "  # the reason of a check that cannot read the kernel log begins with this text


class KernelLogCheck(Criterion):
    """The kernel has no matching line about the device. The device need not be part of a look."""

    is_decided_by_state: ClassVar[bool] = True
    has_own_events: ClassVar[bool] = True

    log: Log

    def list_words(self) -> tuple[str, ...]:
        """Return the words that the pattern compares."""
        return tuple(brace.word for brace in self.log.pattern.compared_words)

    def list_captured_words(self) -> frozenset[str]:
        """Return the words whose values come from a line."""
        return frozenset(brace.word for brace in self.log.pattern.captured_words)

    def get_log(self) -> Log:
        """Return the kernel log pattern."""
        return self.log

    def evaluate(self, check: Check, facts: QueryFacts) -> CheckResult:
        """Return the keys of the device in the kernel log. The state decides whether the check fails."""
        values: list[Scalar] = []
        for word in self.list_words():
            value = facts(word)
            if isinstance(value, Absent):
                return check.make_unknown_result(value.prefix_reason(word).reason)
            if isinstance(value, tuple):
                return check.make_unknown_result(f"{word} is a list")
            values.append(value)
        kinds = tuple(brace.kind for brace in self.log.pattern.compared_words)
        parts = () if check.reason is None else check.reason.pieces
        return CheckResult(
            CheckVerdict.PASS,
            log_keys=make_message_keys(kinds, tuple(values)),
            log_reason=tuple(format_known_words(parts, facts, self.list_captured_words())),
        )

    def step(
        self, check: Check, state: CheckState, result: CheckResult, context: StepContext
    ) -> tuple[CheckState, float | None]:
        """Return the state, and the monotonic time of its recovery, or None."""
        log_history = context.log_history
        if result.log_keys is not None and log_history.read_error is not None:
            result = check.make_unknown_result(f"{LOG_HEAD}{log_history.read_error.reason}")
        if state.latched or result.verdict is CheckVerdict.IGNORED:
            return state, None
        healthy_state = HEALTHY if state.cleared_line < 0 else CheckState(cleared_line=state.cleared_line)
        if result.log_keys is None:
            unknown_state = replace(healthy_state, failing=True, reason=result.reason, failing_as_unknown=True)
            return (unknown_state if result.verdict is CheckVerdict.FAIL else healthy_state), None
        failing_lines = [
            failing
            for matches in log_history.find_matches(self.log, result.log_keys)
            if (failing := matches.find_failing_line(self.log, state.cleared_line, context.current_time)) is not None
        ]
        if not failing_lines:
            return healthy_state, None
        line, recovery_time = max(failing_lines, key=lambda item: inf if item[1] is None else item[1])
        is_same_failure = state.failing and not state.failing_as_unknown and recovery_time is not None
        captured_facts = FactCopy(dict(line.captured_values))
        line_reason = format_parts(result.log_reason, captured_facts) if result.log_reason else line.text
        reason = state.reason if is_same_failure else shorten(line_reason, REASON_LIMIT)
        evidence = state.evidence if is_same_failure and state.evidence else shorten(line.text, REASON_LIMIT)
        return replace(
            healthy_state, failing=True, reason=reason, latched=recovery_time is None, evidence=evidence
        ), recovery_time

    def describe_recovery(self, check: Check) -> str | None:
        """Return the time without a line until recovery, or None if only an administrator clears the failure."""
        del check
        return None if self.log.recovery_s is None else f"after {self.log.recovery_s:g} s without such a line"
