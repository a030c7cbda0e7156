"""What a check hears in the kernel log: which lines are faults, and how many of them it takes."""

from __future__ import annotations

from typing import NamedTuple

from agent.core.language.clause import Clause
from agent.core.language.glob_parts import CapturedWords
from agent.core.language.log_pattern import LogPattern, MessageKey
from agent.core.language.logic import NO_FACTS, PLAIN, Knowledge
from agent.core.language.value import Absent, Value
from agent.core.struct import Struct


class EventRate(NamedTuple):
    """So many events within so many seconds."""

    number: int
    seconds: float


ONE_EVENT = EventRate(1, 0.0)


class LogRecord(NamedTuple):
    """A line of the kernel log: its number since boot, when it was heard in monotonic seconds, and what it says.

    continues: the line before goes on in it, and is the beginning of its text.
    """

    number: int
    at: float
    text: str
    is_continuation: bool = False


class LogMatch(NamedTuple):
    """What a line that counts says: of whom, what was taken of it, and whether that holds until a person clears it."""

    key: MessageKey
    captured_values: CapturedWords
    is_latching: bool


class Log(Struct):
    """`log` with what belongs to it. Equal ones hear the same.

    only, ignore: clauses over what the pattern takes: only these lines count, these do not.
    latch: whether a line holds until a person clears it; a clause over what is taken, or always or never.
    trip: how many it takes. recover: seconds after the last that counts; None if only a person makes it healthy.
    """

    pattern: LogPattern
    include_clause: Clause | None = None
    ignore_clause: Clause | None = None
    latch: Clause | bool = False
    event_rate: EventRate = ONE_EVENT
    recovery_s: float | None = None

    def __hash__(self) -> int:
        """Of what nearly always differs: the rest is long."""
        return hash(self.pattern.text)

    def match_line(self, text: str) -> LogMatch | None:
        """What a line of the kernel's says of somebody; none if it does not fit, or does not count."""
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
    """What is known of a line: the words that were taken of it."""

    def __init__(self, values: CapturedWords) -> None:
        self._values = dict(values)

    def __call__(self, word: str) -> Value | Absent:
        """See `Knowledge`."""
        return self._values.get(word, Absent(f"the line has no {word}"))

    def follow_relation(self, word: str) -> tuple[Knowledge, ...] | Absent:
        """See `Knowledge`."""
        return NO_FACTS.follow_relation(word)
