"""What was heard in the kernel log: of whom which lines told, whether he was there or not. It asks no clock.

A line is read once for each distinct `Log`, and then looked up by what it says: never lines times devices.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from agent.core.entry.kernel_log_check import Log, LogMatch, LogRecord
from agent.core.language.glob_parts import CapturedWords
from agent.core.language.log_pattern import MessageKey
from agent.core.language.value import Absent
from agent.core.struct import Struct

KEYS_LIMIT = 4096  # of whom it is remembered what one `Log` heard

LogKey: TypeAlias = tuple[Log, MessageKey]


class LogLine(Struct):
    """A line that counts: its number since boot, when it was heard, what it says and what was taken of it."""

    number: int
    monotonic_s: float
    text: str
    captured_values: CapturedWords


class MatchedLines(Struct):
    """What a `Log` heard of one key.

    recent: the last lines that count, as many as may matter.
    tripped: the line with which there were enough; `since` is the number of the first of these.
    latched: the last line that holds until a person clears it.
    """

    recent_lines: tuple[LogLine, ...] = ()
    tripping_line: LogLine | None = None
    first_number: int = -1
    latching_line: LogLine | None = None

    def add_line(self, log: Log, line: LogLine, *, latches: bool) -> MatchedLines:
        """After one more line that counts."""
        last = self.recent_lines[-1] if self.recent_lines else None
        over = last is not None and log.recovery_s is not None and line.monotonic_s >= last.monotonic_s + log.recovery_s
        recent = (*(() if over else self.recent_lines), line)[-log.event_rate.number :]
        tripped, since = (None, -1) if over else (self.tripping_line, self.first_number)
        if len(recent) == log.event_rate.number and line.monotonic_s <= recent[0].monotonic_s + log.event_rate.seconds:
            tripped, since = tripped or line, recent[0].number
        return MatchedLines(recent, tripped, since, line if latches else self.latching_line)

    def find_failing_line(self, log: Log, cleared: int, now: float) -> tuple[LogLine, float | None] | None:
        """The line that fails it, and when that is over, which for None is never; none if nothing fails.

        cleared: the number of the last line that a person has cleared.
        """
        if self.latching_line is not None and self.latching_line.number > cleared:
            return self.latching_line, None
        if self.tripping_line is None or self.first_number <= cleared:
            return None
        if log.recovery_s is None:
            return self.tripping_line, None
        over = self.recent_lines[-1].monotonic_s + log.recovery_s
        return None if now >= over else (self.tripping_line, over)


NO_LINES = MatchedLines()


class KernelLogHistory:
    """All that was heard since boot.

    last: the number of the last line. absent: why the log cannot be read, if it cannot.
    """

    def __init__(self) -> None:
        self.last_number = -1
        self.read_error: Absent | None = None
        self._heard: dict[Log, dict[MessageKey, MatchedLines]] = {}
        self._upto: dict[Log, int] = {}
        self._spoke: set[Log] = set()  # of whom the line that was read last has spoken already

    @property
    def has_logs(self) -> bool:
        """Whether anybody listens."""
        return bool(self._heard)

    def set_logs(self, logs: Iterable[Log]) -> bool:
        """Hear for these, and for no others; whether one is new, so that all lines are to be read again."""
        wanted = dict.fromkeys(logs)
        new = wanted.keys() - self._heard.keys()
        self._heard = {log: self._heard.get(log, {}) for log in wanted}
        self._upto = {log: self._upto.get(log, -1) for log in wanted}
        return bool(new)

    def add_record(self, record: LogRecord) -> frozenset[LogKey]:
        """Take a line of the kernel's; for whom it counts. One that was heard before counts for nobody."""
        self.last_number = max(self.last_number, record.number)
        told: set[LogKey] = set()
        self._spoke = self._spoke if record.is_continuation else set()
        for log, heard in self._heard.items():
            if record.number <= self._upto[log]:
                continue
            self._upto[log] = record.number
            spoken = None if log in self._spoke else log.match_line(record.text)
            if spoken is not None:
                self._spoke.add(log)
                _remember(heard, log, record, spoken)
                told.add((log, spoken.key))
        return frozenset(told)

    def find_matches(self, log: Log, keys: Iterable[MessageKey]) -> tuple[MatchedLines, ...]:
        """What was heard under these keys."""
        heard = self._heard.get(log, {})
        return tuple(heard[key] for key in keys if key in heard)


def _remember(heard: dict[MessageKey, MatchedLines], log: Log, record: LogRecord, spoken: LogMatch) -> None:
    line = LogLine(record.number, record.monotonic_s, record.text, spoken.captured_values)
    before = heard.pop(spoken.key, NO_LINES)
    heard[spoken.key] = before.add_line(log, line, latches=spoken.is_latching)
    if len(heard) > KEYS_LIMIT:
        del heard[next(iter(heard))]
