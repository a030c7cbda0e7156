"""Kernel log patterns (`log`), and the history of the lines that match, by device, also for absent devices.

Does not read the clock. Each distinct `Log` matches a line once. Devices then look up the result by its key: the cost
is not lines times devices.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

from agent.core.entry.fact_copy import FactCopy
from agent.core.language.clause import Clause
from agent.core.language.glob_parts import CapturedWords
from agent.core.language.log_pattern import LogPattern, MessageKey
from agent.core.language.logic import PLAIN
from agent.core.language.value import Absent
from agent.core.struct import Struct

KEYS_LIMIT = 4096  # keys of one `Log` whose lines are kept


class EventRate(NamedTuple):
    """A number of events within a time in seconds."""

    number: int
    seconds: float

    def format(self) -> str:
        """Return the text of the rate."""
        return f"{self.number} within {self.seconds:g} s"


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
        facts = FactCopy(dict(captured_values))
        if self.include_clause is not None and not self.include_clause.evaluate(facts, PLAIN):
            return None
        if self.ignore_clause is not None and self.ignore_clause.evaluate(facts, PLAIN):
            return None
        is_latching = self.latch if isinstance(self.latch, bool) else bool(self.latch.evaluate(facts, PLAIN))
        return LogMatch(key, captured_values, is_latching)


LogKey: TypeAlias = tuple[Log, MessageKey]


class LogLine(Struct):
    """A matching line: its number since boot, its time in monotonic seconds, its text and its captured values."""

    number: int
    monotonic_s: float
    text: str
    captured_values: CapturedWords


class MatchedLines(Struct):
    """The matching lines of one `Log` and one key.

    recent_lines: the last lines, as many as the event rate needs.
    tripping_line: the line that reached the event rate. first_number: the number of the first line of this rate.
    latching_line: the last line that fails the check until an administrator clears it.
    """

    recent_lines: tuple[LogLine, ...] = ()
    tripping_line: LogLine | None = None
    first_number: int = -1
    latching_line: LogLine | None = None

    def add_line(self, log: Log, line: LogLine, *, is_latching: bool) -> MatchedLines:
        """Return the lines with one more matching line."""
        last_line = self.recent_lines[-1] if self.recent_lines else None
        has_recovered = (
            last_line is not None
            and log.recovery_s is not None
            and line.monotonic_s >= last_line.monotonic_s + log.recovery_s
        )
        recent_lines = (*(() if has_recovered else self.recent_lines), line)[-log.event_rate.number :]
        tripping_line, first_number = (None, -1) if has_recovered else (self.tripping_line, self.first_number)
        if (
            len(recent_lines) == log.event_rate.number
            and line.monotonic_s <= recent_lines[0].monotonic_s + log.event_rate.seconds
        ):
            tripping_line, first_number = tripping_line or line, recent_lines[0].number
        return MatchedLines(recent_lines, tripping_line, first_number, line if is_latching else self.latching_line)

    def find_failing_line(
        self, log: Log, cleared_line: int, current_time: float
    ) -> tuple[LogLine, float | None] | None:
        """Return the failing line and the monotonic time of recovery (None: never), or None if no line fails the check.

        cleared_line: the number of the last line that an administrator cleared.
        """
        if self.latching_line is not None and self.latching_line.number > cleared_line:
            return self.latching_line, None
        if self.tripping_line is None or self.first_number <= cleared_line:
            return None
        if log.recovery_s is None:
            return self.tripping_line, None
        recovery_time = self.recent_lines[-1].monotonic_s + log.recovery_s
        return None if current_time >= recovery_time else (self.tripping_line, recovery_time)


NO_LINES = MatchedLines()


class KernelLogHistory:
    """All matching lines since boot.

    last_number: the number of the last line. read_error: the reason why the log cannot be read, or None.
    """

    def __init__(self) -> None:
        self.last_number = -1
        self.read_error: Absent | None = None
        self._matches: dict[Log, dict[MessageKey, MatchedLines]] = {}
        self._last_numbers: dict[Log, int] = {}
        self._matched_logs: set[Log] = set()  # logs that match the last line, continuations included

    @property
    def has_logs(self) -> bool:
        """Return whether a check uses the kernel log."""
        return bool(self._matches)

    def set_logs(self, logs: Iterable[Log]) -> bool:
        """Replace the logs to match. Return whether one is new: then all lines must be read again."""
        log_set = dict.fromkeys(logs)
        new_logs = log_set.keys() - self._matches.keys()
        self._matches = {log: self._matches.get(log, {}) for log in log_set}
        self._last_numbers = {log: self._last_numbers.get(log, -1) for log in log_set}
        return bool(new_logs)

    def add_record(self, record: LogRecord) -> frozenset[LogKey]:
        """Add a line of the kernel and return the keys that it matches. A line that was read before matches no key."""
        self.last_number = max(self.last_number, record.number)
        changed_keys: set[LogKey] = set()
        self._matched_logs = self._matched_logs if record.is_continuation else set()
        for log, matches in self._matches.items():
            if record.number <= self._last_numbers[log]:
                continue
            self._last_numbers[log] = record.number
            match = None if log in self._matched_logs else log.match_line(record.text)
            if match is not None:
                self._matched_logs.add(log)
                _save_match(matches, log, record, match)
                changed_keys.add((log, match.key))
        return frozenset(changed_keys)

    def find_matches(self, log: Log, keys: Iterable[MessageKey]) -> tuple[MatchedLines, ...]:
        """Return the matching lines of these keys."""
        matches = self._matches.get(log, {})
        return tuple(matches[key] for key in keys if key in matches)


def _save_match(matches: dict[MessageKey, MatchedLines], log: Log, record: LogRecord, match: LogMatch) -> None:
    line = LogLine(record.number, record.monotonic_s, record.text, match.captured_values)
    previous = matches.pop(match.key, NO_LINES)
    matches[match.key] = previous.add_line(log, line, is_latching=match.is_latching)
    if len(matches) > KEYS_LIMIT:
        del matches[next(iter(matches))]
