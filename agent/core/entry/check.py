"""Checks: "healthy while …", and what one says of a host device at one look."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from enum import Enum
from typing import NamedTuple, TypeAlias

from agent.core.entry.counter_check import CounterCheck
from agent.core.entry.kernel_log_check import EventRate, Log
from agent.core.entry.query import QueryFacts, QueryStatus, QueryTemplate
from agent.core.language.clause import Clause, FailedLine
from agent.core.language.log_pattern import MessageKey, make_message_keys
from agent.core.language.logic import THREE_VALUED
from agent.core.language.safe_text import shorten
from agent.core.language.template import FactReader, Slot, Template, apply_filters
from agent.core.language.value import Absent, Scalar, format_scalar
from agent.core.struct import Struct, not_compared, replace

SHOWN = 200  # characters of a reason
_UNKNOWN = "?"  # stands for a word that says nothing


class LookCount(NamedTuple):
    """So many looks in a row."""

    number: int


class LookDuration(NamedTuple):
    """Every look for so many seconds."""

    seconds: float


After: TypeAlias = LookCount | LookDuration
Trip: TypeAlias = After | EventRate
ONE = LookCount(1)


class OnUnknown(Enum):
    """What a look counts as that cannot tell, because a word is absent that would decide."""

    UNHEALTHY = "unhealthy"
    HEALTHY = "healthy"
    KEEP = "keep"


class CheckVerdict(Enum):
    """What one look says. NOTHING: it counts for no look at all. BESIDE: the check does not apply.

    AWAITED: that is to come, and until something is known the device is not Healthy.
    """

    GOOD = "good"
    BAD = "bad"
    NOTHING = "nothing"
    BESIDE = "beside"
    AWAITED = "awaited"


class LogSubscription(NamedTuple):
    """Under which keys the kernel log speaks of a device; and what is then said, but for what the line says."""

    keys: frozenset[MessageKey]
    phrase: tuple[str | Slot, ...] = ()


class UnknownCause(Enum):
    """Why a look cannot tell: nobody knows, or nobody said so in time."""

    UNKNOWN = "unknown"
    TIMEOUT = "timeout"


@not_compared("doubt")
class CheckResult(Struct):
    """What one look says, and why, if that is bad.

    answer: the number of the answer that it rests on; None if it rests on none.
    count: what a counter says; whether it has grown is not seen at one look. ear: what to listen for.
    doubt: why it cannot tell, whatever that counts as.
    """

    says: CheckVerdict
    reason: str = ""
    answer: int | None = None
    count: int | None = None
    ear: LogSubscription | None = None
    doubt: UnknownCause | None = None

    def because(self, reason: str) -> CheckResult:
        """The same for another reason."""
        return self if reason == self.reason else replace(self, reason=shorten(reason, SHOWN))


class Check(Struct):
    """`health.NAME`. Equal checks say the same, wherever they are written.

    holds: what has to hold, whom to ask, the counter that must not grow, or what to listen for.
    when: whether it applies; None if it always does.
    every: seconds between looks besides those that events bring; without it only looks at some distance are counted
        apart.
    trip, recover: what it takes to fail, and to be healthy again; without `recover` only a person makes it healthy.
    reason: what is said of it; None for the line that fails and what was read.
    again: it is asked once more when a container gets the device.
    leans: the joins of whose partners' health it speaks.
    """

    name: str
    holds: Clause | QueryTemplate | CounterCheck | Log
    when: Clause | None = None
    every: float | None = None
    trip: Trip = ONE
    recover: After | None = ONE
    on_unknown: OnUnknown = OnUnknown.UNHEALTHY
    reason: Template | None = None
    again: bool = False
    leans: tuple[str, ...] = ()

    def ask(self, facts: QueryFacts) -> CheckResult:
        """What it says of a host device of which `facts` tell."""
        if self.when is not None and self.when.evaluate(facts, THREE_VALUED) is not True:
            return CheckResult(CheckVerdict.BESIDE)
        match self.holds:
            case Clause():
                return self._held(self.holds, facts)
            case CounterCheck():
                return self._counted(self.holds, facts)
            case Log():
                return self._listening(self.holds, facts)
        return self._heard(self.holds, facts)

    @property
    def log(self) -> Log | None:
        """What it listens for, if it does."""
        return self.holds if isinstance(self.holds, Log) else None

    def _held(self, holds: Clause, facts: QueryFacts) -> CheckResult:
        failed = holds.find_failed_line(facts, THREE_VALUED)
        if failed is None:
            return CheckResult(CheckVerdict.GOOD)
        if failed.undecided_fact is not None and self.on_unknown is not OnUnknown.UNHEALTHY:
            return self.unknown("")
        doubt = None if failed.undecided_fact is None else UnknownCause.UNKNOWN
        return CheckResult(CheckVerdict.BAD, shorten(self._said(holds, failed, facts), SHOWN), doubt=doubt)

    def _counted(self, rises: CounterCheck, facts: QueryFacts) -> CheckResult:
        count = facts(rises.word)
        if isinstance(count, Absent):
            return self.unknown(self._why(count.prefix_reason(rises.word).reason, facts))
        if not isinstance(count, int):
            return self.unknown(self._why(f"{rises.word} is no number", facts))
        return CheckResult(CheckVerdict.GOOD, self._why("", facts), count=count)

    def _listening(self, log: Log, facts: QueryFacts) -> CheckResult:
        values: list[Scalar] = []
        for brace in log.pattern.compared_words:
            value = facts(brace.word)
            if isinstance(value, Absent):
                return self.unknown(value.prefix_reason(brace.word).reason)
            if isinstance(value, tuple):
                return self.unknown(f"{brace.word} is a list")
            values.append(value)
        kinds = tuple(brace.kind for brace in log.pattern.compared_words)
        taken = {brace.word for brace in log.pattern.captured_words}
        phrase = () if self.reason is None else tuple(_phrase(self.reason, facts, taken))
        return CheckResult(CheckVerdict.GOOD, ear=LogSubscription(make_message_keys(kinds, tuple(values)), phrase))

    def _heard(self, asks: QueryTemplate, facts: QueryFacts) -> CheckResult:
        inquiry = asks.inquiry(facts)
        if isinstance(inquiry, Absent):
            return self.unknown(self._why(inquiry.reason, facts))
        answer = facts.answer(inquiry)
        match answer.reply:
            case QueryStatus.WELL:
                return CheckResult(CheckVerdict.GOOD, answer=answer.number)
            case QueryStatus.OFF:
                return CheckResult(CheckVerdict.BESIDE, answer.reason)
            case QueryStatus.AWAITED:
                waits = self.on_unknown is OnUnknown.UNHEALTHY
                return CheckResult(CheckVerdict.AWAITED if waits else CheckVerdict.NOTHING, answer.reason)
            case QueryStatus.UNKNOWN:
                return self.unknown(self._why(answer.reason, facts), answer.number, late=answer.late)
        return CheckResult(CheckVerdict.BAD, self._why(answer.reason, facts), answer.number)

    def unknown(self, reason: str, answer: int | None = None, *, late: bool = False) -> CheckResult:
        """What a look counts as that cannot tell, for that reason. `late`: who was asked did not answer in time."""
        doubt = UnknownCause.TIMEOUT if late else UnknownCause.UNKNOWN
        match self.on_unknown:
            case OnUnknown.HEALTHY:
                return CheckResult(CheckVerdict.GOOD, answer=answer, doubt=doubt)
            case OnUnknown.KEEP:
                return CheckResult(CheckVerdict.NOTHING, doubt=doubt)
        return CheckResult(CheckVerdict.BAD, reason, answer, doubt=doubt)

    def _why(self, heard: str, facts: QueryFacts) -> str:
        """The reason, if that is said, and what was heard."""
        said = "" if self.reason is None else told(self.reason, facts)
        return shorten(f"{said} ({heard})" if said and heard else said or heard, SHOWN)

    def _said(self, holds: Clause, failed: FailedLine, facts: FactReader) -> str:
        if self.reason is None:
            statement = failed.statement
            address = statement.address.removeprefix(f"{holds.name}.")
            return f"{address} = {statement.source_text}, here {failed.facts_text}"
        said = told(self.reason, facts)
        return f"{said} ({failed.undecided_fact.reason})" if failed.undecided_fact is not None else said


def told(text: Template, facts: FactReader) -> str:
    """A text for people: lists with commas, and a question mark for a word that says nothing."""
    return spoken(text.pieces, facts)


def spoken(pieces: Iterable[str | Slot], facts: FactReader) -> str:
    """The same of the pieces of one."""
    return "".join(piece if isinstance(piece, str) else ", ".join(_words(piece, facts)) for piece in pieces)


def _phrase(text: Template, facts: FactReader, later: AbstractSet[str]) -> Iterator[str | Slot]:
    """The pieces of a text, with all words told but those that are known later."""
    for piece in text.pieces:
        yield piece if isinstance(piece, str) or piece.word in later else spoken((piece,), facts)


def _words(slot: Slot, facts: FactReader) -> Iterator[str]:
    value = facts(slot.word)
    if isinstance(value, Absent) or value == ():
        yield _UNKNOWN
        return
    for item in value if isinstance(value, tuple) else (value,):
        yield apply_filters(format_scalar(item), slot.filters)
