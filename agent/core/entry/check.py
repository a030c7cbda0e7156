"""Checks (`health.NAME`), their criteria, and their result for one host device at one look.

A criterion is a check kind with its values. A state is stepped by an automaton over results and their times. It does
not read the clock. A look without an opposite result ends every row: only consecutive looks fail or recover. Looks
count as several only if enough time lies between them. A row that began at one look is one look long, whenever the
previous row ended.

The first result decides the initial state. The failure threshold applies only to a check that has already passed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from enum import Enum
from typing import ClassVar, NamedTuple, TypeAlias

from agent.core.entry.check_state import HEALTHY, CheckState
from agent.core.entry.kernel_log import EventRate, KernelLogHistory, Log
from agent.core.entry.query import Query, QueryFacts
from agent.core.language.clause import Clause
from agent.core.language.log_pattern import MessageKey
from agent.core.language.logic import THREE_VALUED
from agent.core.language.safe_text import shorten
from agent.core.language.template import FactReader, Slot, Template, apply_filters
from agent.core.language.value import Absent, format_scalar
from agent.core.struct import Struct, ignore_in_comparison, replace

REASON_LIMIT = 200  # characters of a reason
_UNKNOWN = "?"  # replaces an absent value


class LookCount(NamedTuple):
    """A number of consecutive looks."""

    number: int

    def format(self, adjective: str = "such") -> str:
        """Return the text of the threshold."""
        return f"{self.number} {adjective} look{'s' * (self.number != 1)}"

    def is_reached(self, look_count: int, seconds: float) -> bool:
        """Return whether a row of opposite results is long enough."""
        del seconds
        return look_count >= self.number

    def find_due_time(self, state: CheckState, interval: float | None) -> float | None:
        """Return the monotonic time of the next look that counts, or None if a look without an event is not due."""
        return None if interval is None else state.counted_at + interval


class LookDuration(NamedTuple):
    """A time in seconds. Every look in this time must agree."""

    seconds: float

    def format(self, adjective: str = "such") -> str:
        """See `LookCount.format`."""
        return f"{self.seconds:g} s of {adjective} looks"

    def is_reached(self, look_count: int, seconds: float) -> bool:
        """See `LookCount.is_reached`."""
        del look_count
        return seconds >= self.seconds

    def find_due_time(self, state: CheckState, interval: float | None) -> float | None:
        """See `LookCount.find_due_time`."""
        del interval
        return None if state.since is None else state.since + self.seconds


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
    log_keys: the keys of the device in the kernel log. None if the check reads no kernel log lines.
    log_reason: the parts of the reason. A part is a slot if only the log line has its value.
    unknown_cause: why the verdict is unknown, for every effect of `on_unknown`.
    """

    verdict: CheckVerdict
    reason: str = ""
    query_number: int | None = None
    count: int | None = None
    log_keys: frozenset[MessageKey] | None = None
    log_reason: tuple[str | Slot, ...] = ()
    unknown_cause: UnknownCause | None = None


class StepContext(NamedTuple):
    """The values of a step that all checks share.

    current_time: monotonic seconds.
    look_distance_s: seconds between two looks that both count, for a check without an interval of its own.
    """

    current_time: float
    look_distance_s: float
    log_history: KernelLogHistory


class Criterion(Struct):
    """One check kind with its values. Each subclass is one check kind, and no other code depends on the kind.

    is_decided_by_state: one result cannot show whether the check fails. Its state shows it.
    has_own_events: the state can also change between looks.
    can_read_in_pod: the criterion can be evaluated from the facts that stay on the host; see `moves_into_pod`.
    """

    is_decided_by_state: ClassVar[bool] = False
    has_own_events: ClassVar[bool] = False
    can_read_in_pod: ClassVar[bool] = False

    def list_clauses(self) -> tuple[Clause, ...]:
        """Return the clauses that the criterion evaluates."""
        return ()

    def list_words(self) -> tuple[str, ...]:
        """Return the words that the criterion uses outside of clauses."""
        return ()

    def list_captured_words(self) -> frozenset[str]:
        """Return the words of the reason whose values do not come from a look."""
        return frozenset()

    def get_log(self) -> Log | None:
        """Return the kernel log pattern, or None."""
        return None

    def build_query(self, facts: FactReader) -> Query | Absent | None:
        """Return the query about a device, absent if one of its words is absent, or None without a query."""
        del facts
        return None

    def evaluate(self, check: Check, facts: QueryFacts) -> CheckResult:
        """Return the result of the check for a host device to which the check applies."""
        raise NotImplementedError

    def step(
        self, check: Check, state: CheckState, result: CheckResult, context: StepContext
    ) -> tuple[CheckState, float | None]:
        """Return the check state after a look, and the monotonic time of the next look that needs no event, or None.

        The state has no time of its last change; see `set_change_time`.
        """
        current = step_row(check, state, result, context)
        return current, find_due_time(check, current, context.current_time)

    def describe_recovery(self, check: Check) -> str | None:
        """Return how the check recovers by itself, or None if only an administrator clears the failure."""
        return None if check.recovery_threshold is None else f"after {check.recovery_threshold.format('good')}"


class Check(Struct):
    """One `health.NAME` rule. Equal checks have equal results, in every entry.

    criterion: the condition of a healthy device.
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
    criterion: Criterion
    condition: Clause | None = None
    interval: float | None = None
    failure_threshold: FailureThreshold = ONE_LOOK
    recovery_threshold: LookThreshold | None = ONE_LOOK
    on_unknown: OnUnknown = OnUnknown.UNHEALTHY
    reason: Template | None = None
    recheck_on_allocate: bool = False
    partner_joins: tuple[str, ...] = ()

    @property
    def log(self) -> Log | None:
        """The kernel log pattern, or None if this is not a kernel log check."""
        return self.criterion.get_log()

    def evaluate(self, facts: QueryFacts) -> CheckResult:
        """Return the result of the check for a host device with these facts."""
        if self.condition is not None and self.condition.evaluate(facts, THREE_VALUED) is not True:
            return CheckResult(CheckVerdict.NOT_APPLICABLE)
        return self.criterion.evaluate(self, facts)

    def list_clauses(self) -> tuple[Clause, ...]:
        """Return the clauses of the criterion and the condition."""
        return (*self.criterion.list_clauses(), *(() if self.condition is None else (self.condition,)))

    def make_unknown_result(
        self, reason: str, query_number: int | None = None, *, timed_out: bool = False
    ) -> CheckResult:
        """Return the result of a look without a verdict.

        timed_out: the query had no answer before its timeout.
        """
        cause = UnknownCause.TIMEOUT if timed_out else UnknownCause.UNKNOWN
        match self.on_unknown:
            case OnUnknown.HEALTHY:
                return CheckResult(CheckVerdict.PASS, query_number=query_number, unknown_cause=cause)
            case OnUnknown.KEEP:
                return CheckResult(CheckVerdict.IGNORED, unknown_cause=cause)
        return CheckResult(CheckVerdict.FAIL, reason, query_number, unknown_cause=cause)

    def join_reasons(self, detail: str, facts: FactReader) -> str:
        """Return the reason of the check with the detail in brackets. Return the detail if the check has no reason."""
        text = "" if self.reason is None else format_parts(self.reason.pieces, facts)
        return shorten(f"{text} ({detail})" if text and detail else text or detail, REASON_LIMIT)


def step_row(check: Check, state: CheckState, result: CheckResult, context: StepContext) -> CheckState:
    """Return the state after a look. A row of opposite results changes the state when it reaches the threshold."""
    threshold = _get_threshold(check, state)
    if result.verdict in {CheckVerdict.IGNORED, CheckVerdict.PENDING}:
        return state
    if result.verdict is CheckVerdict.NOT_APPLICABLE:
        return HEALTHY if threshold is not None else _end_row(state)
    is_failing = result.verdict is CheckVerdict.FAIL
    if state.never_healthy and not is_failing:
        return HEALTHY
    if (is_failing is state.failing and not state.never_healthy) or threshold is None:
        return _end_row(state)
    if state.never_healthy and not state.failing:
        state = replace(state, failing=True, reason=result.reason)
    current_time = context.current_time
    distance_s = context.look_distance_s if check.interval is None else check.interval
    since = current_time if state.since is None else state.since
    is_new_look = (
        current_time >= state.counted_at + distance_s
        if result.query_number is None
        else result.query_number != state.query_number
    )
    is_counted = state.since is None or is_new_look
    look_count = state.look_count + is_counted
    if threshold.is_reached(look_count, current_time - since):
        return CheckState(is_failing, state.reason or result.reason if is_failing else "")
    if not is_counted:
        return replace(state, since=since)
    return replace(state, since=since, look_count=look_count, counted_at=current_time, query_number=result.query_number)


def find_due_time(check: Check, state: CheckState, current_time: float) -> float | None:
    """Return the monotonic time of the next look that needs no event, or None."""
    times = [] if check.interval is None else [current_time + check.interval]
    threshold = _get_threshold(check, state)
    if state.since is not None and threshold is not None:
        due_time = threshold.find_due_time(state, check.interval)
        times += () if due_time is None else (due_time,)
    return min((time for time in times if time > current_time), default=None)


def set_change_time(current: CheckState, previous: CheckState, current_time: float) -> CheckState:
    """Return the state with the time of its last change."""
    changed_at = previous.changed_at if current.failing is previous.failing else current_time
    return current if current.changed_at == changed_at else replace(current, changed_at=changed_at)


def _get_threshold(check: Check, state: CheckState) -> LookThreshold | None:
    """Return the threshold for the next change of the state."""
    if state.failing and not state.never_healthy:
        return check.recovery_threshold
    return ONE_LOOK if isinstance(check.failure_threshold, EventRate) else check.failure_threshold


def _end_row(state: CheckState) -> CheckState:
    return state if state.since is None else CheckState(state.failing, state.reason)


def format_parts(pieces: Iterable[str | Slot], facts: FactReader) -> str:
    """Return the text of some parts of a template. Lists have commas. A question mark replaces each absent value."""
    return "".join(piece if isinstance(piece, str) else ", ".join(_format_values(piece, facts)) for piece in pieces)


def format_known_words(
    pieces: Iterable[str | Slot], facts: FactReader, later_words: AbstractSet[str]
) -> Iterator[str | Slot]:
    """Yield the parts of a template with their values. Slots of words that are known later stay slots."""
    for piece in pieces:
        yield piece if isinstance(piece, str) or piece.word in later_words else format_parts((piece,), facts)


def _format_values(slot: Slot, facts: FactReader) -> Iterator[str]:
    value = facts(slot.word)
    if isinstance(value, Absent) or value == ():
        yield _UNKNOWN
        return
    for item in value if isinstance(value, tuple) else (value,):
        yield apply_filters(format_scalar(item), slot.filters)
