"""Checks (`health.NAME`) and their result for one host device at one look."""

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
from agent.core.struct import Struct, ignore_in_comparison, replace

REASON_LIMIT = 200  # characters of a reason
_UNKNOWN = "?"  # replaces an absent value


class LookCount(NamedTuple):
    """A number of consecutive looks."""

    number: int


class LookDuration(NamedTuple):
    """A time in seconds. Every look in this time must agree."""

    seconds: float


LookThreshold: TypeAlias = LookCount | LookDuration
FailureThreshold: TypeAlias = LookThreshold | EventRate
ONE_LOOK = LookCount(1)


class OnUnknown(Enum):
    """The effect of a look without a verdict: a word that decides the check is absent."""

    UNHEALTHY = "unhealthy"
    HEALTHY = "healthy"
    KEEP = "keep"


class CheckVerdict(Enum):
    """The verdict of a check at one look.

    IGNORED: the look does not count.
    NOT_APPLICABLE: the check does not apply to the device.
    PENDING: the verdict is not known yet. The device is Unhealthy until the verdict is known.
    """

    PASS = "good"  # noqa: S105  no password
    FAIL = "bad"
    IGNORED = "nothing"
    NOT_APPLICABLE = "beside"
    PENDING = "awaited"


class LogSubscription(NamedTuple):
    """The keys of a device in the kernel log, and the parts of its reason. A part is a slot if only the log line has
    its value.
    """

    keys: frozenset[MessageKey]
    phrase: tuple[str | Slot, ...] = ()


class UnknownCause(Enum):
    """The cause of an unknown verdict: no value, or no answer before the timeout."""

    UNKNOWN = "unknown"
    TIMEOUT = "timeout"


@ignore_in_comparison("unknown_cause")
class CheckResult(Struct):
    """The result of a check at one look.

    reason: why the check fails.
    query_number: the number of the query result behind the verdict, or None.
    count: the value of a counter. One look cannot show whether the counter grew.
    subscription: the keys that a kernel log check watches.
    unknown_cause: why the verdict is unknown, for every effect of `on_unknown`.
    """

    verdict: CheckVerdict
    reason: str = ""
    query_number: int | None = None
    count: int | None = None
    subscription: LogSubscription | None = None
    unknown_cause: UnknownCause | None = None

    def replace_reason(self, reason: str) -> CheckResult:
        """Return the result with another reason, cut to `REASON_LIMIT` characters."""
        return self if reason == self.reason else replace(self, reason=shorten(reason, REASON_LIMIT))


class Check(Struct):
    """One `health.NAME` rule. Equal checks have equal results, in every entry.

    criterion: the clause that must match, the query, the counter that must not grow, or the kernel log pattern.
    condition: the clause for devices to which the check applies. None: all devices.
    interval: the seconds between two looks, besides looks after kernel events. None: only looks with some distance
        count separately.
    failure_threshold, recovery_threshold: the looks or seconds until the state changes. Without a recovery threshold
        only an administrator clears the failure.
    reason: the template of the reason. None: the failed clause line and its value.
    recheck_on_allocate: the check runs again at each Allocate call.
    partner_joins: the joins whose partner health the check uses.
    """

    name: str
    criterion: Clause | QueryTemplate | CounterCheck | Log
    condition: Clause | None = None
    interval: float | None = None
    failure_threshold: FailureThreshold = ONE_LOOK
    recovery_threshold: LookThreshold | None = ONE_LOOK
    on_unknown: OnUnknown = OnUnknown.UNHEALTHY
    reason: Template | None = None
    recheck_on_allocate: bool = False
    partner_joins: tuple[str, ...] = ()

    def evaluate(self, facts: QueryFacts) -> CheckResult:
        """Return the result of the check for a host device with these facts."""
        if self.condition is not None and self.condition.evaluate(facts, THREE_VALUED) is not True:
            return CheckResult(CheckVerdict.NOT_APPLICABLE)
        match self.criterion:
            case Clause():
                return self._evaluate_clause(self.criterion, facts)
            case CounterCheck():
                return self._evaluate_counter(self.criterion, facts)
            case Log():
                return self._evaluate_log(self.criterion, facts)
        return self._evaluate_query(self.criterion, facts)

    @property
    def log(self) -> Log | None:
        """The kernel log pattern, or None if this is not a kernel log check."""
        return self.criterion if isinstance(self.criterion, Log) else None

    def _evaluate_clause(self, clause: Clause, facts: QueryFacts) -> CheckResult:
        failed_line = clause.find_failed_line(facts, THREE_VALUED)
        if failed_line is None:
            return CheckResult(CheckVerdict.PASS)
        if failed_line.undecided_fact is not None and self.on_unknown is not OnUnknown.UNHEALTHY:
            return self.make_unknown_result("")
        cause = None if failed_line.undecided_fact is None else UnknownCause.UNKNOWN
        return CheckResult(
            CheckVerdict.FAIL,
            shorten(self._format_failed_line(clause, failed_line, facts), REASON_LIMIT),
            unknown_cause=cause,
        )

    def _evaluate_counter(self, rises: CounterCheck, facts: QueryFacts) -> CheckResult:
        count = facts(rises.word)
        if isinstance(count, Absent):
            return self.make_unknown_result(self._join_reasons(count.prefix_reason(rises.word).reason, facts))
        if not isinstance(count, int):
            return self.make_unknown_result(self._join_reasons(f"{rises.word} is no number", facts))
        return CheckResult(CheckVerdict.PASS, self._join_reasons("", facts), count=count)

    def _evaluate_log(self, log: Log, facts: QueryFacts) -> CheckResult:
        values: list[Scalar] = []
        for brace in log.pattern.compared_words:
            value = facts(brace.word)
            if isinstance(value, Absent):
                return self.make_unknown_result(value.prefix_reason(brace.word).reason)
            if isinstance(value, tuple):
                return self.make_unknown_result(f"{brace.word} is a list")
            values.append(value)
        kinds = tuple(brace.kind for brace in log.pattern.compared_words)
        captured_words = {brace.word for brace in log.pattern.captured_words}
        phrase = () if self.reason is None else tuple(_format_known_words(self.reason, facts, captured_words))
        return CheckResult(
            CheckVerdict.PASS, subscription=LogSubscription(make_message_keys(kinds, tuple(values)), phrase)
        )

    def _evaluate_query(self, asks: QueryTemplate, facts: QueryFacts) -> CheckResult:
        inquiry = asks.build_query(facts)
        if isinstance(inquiry, Absent):
            return self.make_unknown_result(self._join_reasons(inquiry.reason, facts))
        answer = facts.get_query_result(inquiry)
        match answer.status:
            case QueryStatus.HEALTHY:
                return CheckResult(CheckVerdict.PASS, query_number=answer.number)
            case QueryStatus.NOT_APPLICABLE:
                return CheckResult(CheckVerdict.NOT_APPLICABLE, answer.reason)
            case QueryStatus.PENDING:
                waits = self.on_unknown is OnUnknown.UNHEALTHY
                return CheckResult(CheckVerdict.PENDING if waits else CheckVerdict.IGNORED, answer.reason)
            case QueryStatus.UNKNOWN:
                return self.make_unknown_result(
                    self._join_reasons(answer.reason, facts), answer.number, late=answer.timed_out
                )
        return CheckResult(CheckVerdict.FAIL, self._join_reasons(answer.reason, facts), answer.number)

    def make_unknown_result(self, reason: str, answer: int | None = None, *, late: bool = False) -> CheckResult:
        """Return the result of a look without a verdict.

        timed_out: the query had no answer before its timeout.
        """
        cause = UnknownCause.TIMEOUT if late else UnknownCause.UNKNOWN
        match self.on_unknown:
            case OnUnknown.HEALTHY:
                return CheckResult(CheckVerdict.PASS, query_number=answer, unknown_cause=cause)
            case OnUnknown.KEEP:
                return CheckResult(CheckVerdict.IGNORED, unknown_cause=cause)
        return CheckResult(CheckVerdict.FAIL, reason, answer, unknown_cause=cause)

    def _join_reasons(self, detail: str, facts: QueryFacts) -> str:
        """Return the reason of the check with the detail in brackets. Return the detail if the check has no reason."""
        text = "" if self.reason is None else format_reason(self.reason, facts)
        return shorten(f"{text} ({detail})" if text and detail else text or detail, REASON_LIMIT)

    def _format_failed_line(self, clause: Clause, failed_line: FailedLine, facts: FactReader) -> str:
        if self.reason is None:
            statement = failed_line.statement
            address = statement.address.removeprefix(f"{clause.name}.")
            return f"{address} = {statement.source_text}, here {failed_line.facts_text}"
        text = format_reason(self.reason, facts)
        return f"{text} ({failed_line.undecided_fact.reason})" if failed_line.undecided_fact is not None else text


def format_reason(text: Template, facts: FactReader) -> str:
    """Return the text of a template. Lists have commas. A question mark stands for each absent value."""
    return format_parts(text.pieces, facts)


def format_parts(pieces: Iterable[str | Slot], facts: FactReader) -> str:
    """Return the text of some parts of a template, like `format_reason`."""
    return "".join(piece if isinstance(piece, str) else ", ".join(_format_values(piece, facts)) for piece in pieces)


def _format_known_words(text: Template, facts: FactReader, later: AbstractSet[str]) -> Iterator[str | Slot]:
    """Yield the parts of a template with their values. Slots of words that are known later stay slots."""
    for piece in text.pieces:
        yield piece if isinstance(piece, str) or piece.word in later else format_parts((piece,), facts)


def _format_values(slot: Slot, facts: FactReader) -> Iterator[str]:
    value = facts(slot.word)
    if isinstance(value, Absent) or value == ():
        yield _UNKNOWN
        return
    for item in value if isinstance(value, tuple) else (value,):
        yield apply_filters(format_scalar(item), slot.filters)
