"""Kernel log checks: the lines that are faults, and the number of lines that make a device Unhealthy."""

from __future__ import annotations

from typing import NamedTuple

from agent.core.language.clause import Clause
from agent.core.language.glob_parts import CapturedWords
from agent.core.language.log_pattern import LogPattern, MessageKey
from agent.core.language.logic import NO_FACTS, PLAIN, Knowledge
from agent.core.language.value import Absent, Value
from agent.core.struct import Struct


class EventRate(NamedTuple):
    """A number of events within a time in seconds."""

    number: int
    seconds: float


ONE_EVENT = EventRate(1, 0.0)


class LogRecord(NamedTuple):
    """One line of the kernel log.

    number: its number since boot.
    monotonic_s: the monotonic time in seconds when the agent read the line.
    is_continuation: the line continues the previous line. `text` contains both.
    """

    number: int
    monotonic_s: float
    text: str
    is_continuation: bool = False


class LogMatch(NamedTuple):
    """A line that counts. is_latching: the failure stays until an administrator clears it."""

    key: MessageKey
    captured_values: CapturedWords
    is_latching: bool


class Log(Struct):
    """One `log` criterion. Equal criteria match equal lines.

    include_clause, ignore_clause: clauses about the captured values. Only the included lines count, and ignored
        lines do not.
    latch: whether a line makes a latching failure: always, never, or if a clause about the captured values matches.
    event_rate: the number of lines that make the device Unhealthy.
    recovery_s: the seconds after the last counted line until recovery. None: only an administrator clears the
        failure.
    """

    pattern: LogPattern
    include_clause: Clause | None = None
    ignore_clause: Clause | None = None
    latch: Clause | bool = False
    event_rate: EventRate = ONE_EVENT
    recovery_s: float | None = None

    def __hash__(self) -> int:
        """Return a hash of the pattern. The other fields are long."""
        return hash(self.pattern.text)

    def match_line(self, text: str) -> LogMatch | None:
        """Return the match of a kernel log line, or None if the line does not match or does not count."""
        match = self.pattern.match(text)
        if match is None:
            return None
        key, captured_values = match
        facts = CapturedFacts(captured_values)
        if self.include_clause is not None and not self.include_clause.evaluate(facts, PLAIN):
            return None
        if self.ignore_clause is not None and self.ignore_clause.evaluate(facts, PLAIN):
            return None
        is_latching = self.latch if isinstance(self.latch, bool) else bool(self.latch.evaluate(facts, PLAIN))
        return LogMatch(key, captured_values, is_latching)


class CapturedFacts:
    """The values that were captured from a line, as facts."""

    def __init__(self, values: CapturedWords) -> None:
        self._values = dict(values)

    def __call__(self, word: str) -> Value | Absent:
        """Return the value of a word."""
        return self._values.get(word, Absent(f"the line has no {word}"))

    def follow_relation(self, word: str) -> tuple[Knowledge, ...] | Absent:
        """Return no devices, because a line has no relations."""
        return NO_FACTS.follow_relation(word)
