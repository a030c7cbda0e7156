"""What an entry said of one host device at a look: by its checks, and by what else hangs on the health of partners.

That is known when the checks of the partners are concluded, after the look. So what is read for it is recorded, and
asked then.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from agent.core.entry.check import Check, CheckResult
from agent.core.entry.counter_check import CounterCheck
from agent.core.entry.fact_copy import FactCopy, copy_facts
from agent.core.entry.kernel_log_check import Log
from agent.core.entry.partner_checks import HEALTHY, REASON
from agent.core.entry.query import Query, QueryFacts, QueryResult, QueryStatus, QueryTemplate
from agent.core.language.clause import Clause
from agent.core.language.logic import THREE_VALUED, Knowledge
from agent.core.language.template import FactReader
from agent.core.language.value import Absent, Value
from agent.core.reason import Reason, ReasonCause
from agent.core.struct import replace


class DeviceCheckResult(NamedTuple):
    """What a check of an entry said of one host device at a look.

    entry: the resource's name as the entry writes it. key, place: those of the host device. member: its name, where it
    is one of several that are one device.
    behind: the partners of whose health it speaks. read: what it is asked over when that is known.
    """

    entry: str
    check: Check
    device_key: str
    location: str
    result: CheckResult
    member: str = ""
    partners: tuple[PartnerResults, ...] = ()
    inputs: PartnerInputs | None = None

    def make_failure_reason(self, text: str) -> Reason:
        """Return the reason of a device of which this check fails, with the member that it is about."""
        return Reason(ReasonCause.CHECK, f"{self.member}: {text}" if self.member else text, self.check.name)


class PartnerDependent(NamedTuple):
    """What else of an entry hangs on the health of partners, of the host device with that key.

    behind: the partners. wait: the `wait` that speaks of it, and what that is asked over; None for what is given,
    which a grant asks.
    """

    device_key: str
    partners: tuple[PartnerResults, ...]
    wait: tuple[Clause, FactCopy] | None = None


class PartnerResults(NamedTuple):
    """A partner as others speak of it: the join's name, why it waits, what its own checks say, and what hangs on its
    own partners.
    """

    name: str
    not_ready_reason: str
    check_results: tuple[DeviceCheckResult, ...]
    dependents: tuple[PartnerDependent, ...] = ()


class PartnerInputs(NamedTuple):
    """What a check was to be told of a device at a look, but for the health of its partners."""

    facts: FactCopy
    query: Query | Absent | None = None
    query_result: QueryResult = QueryResult(QueryStatus.UNKNOWN)


class FactsWithPartnerHealth:
    """What was read of a device, and which of its partners of these names are ill, and why."""

    def __init__(
        self,
        facts: Knowledge,
        partners: tuple[PartnerResults, ...],
        unhealthy_reasons: Mapping[str, str],
        query_result: QueryResult,
    ) -> None:
        self._facts = facts
        self._query_result = query_result
        self._health_values: dict[str, Value | Absent] = {}
        for partner in partners:
            self._health_values[f"{partner.name}.{HEALTHY}"] = partner.name not in unhealthy_reasons
            self._health_values[f"{partner.name}.{REASON}"] = unhealthy_reasons.get(partner.name) or Absent(
                "it is healthy"
            )

    def __call__(self, word: str) -> Value | Absent:
        """See `Knowledge`."""
        return self._health_values[word] if word in self._health_values else self._facts(word)

    def follow_relation(self, word: str) -> tuple[Knowledge, ...] | Absent:
        """See `Knowledge`."""
        return self._facts.follow_relation(word)

    def get_query_result(self, inquiry: Query) -> QueryResult:
        """See `Heard`."""
        del inquiry
        return self._query_result


class _KnownQuery(NamedTuple):
    """What was asked at the look."""

    query: Query | Absent

    def build_query(self, facts: FactReader) -> Query | Absent:
        """See `Asks`."""
        del facts
        return self.query


def read_inputs(check: Check, facts: QueryFacts) -> PartnerInputs:
    """All that a check is to be told of a device, but for the health of its partners."""
    words = [slot.word for slot in check.reason.slots] if check.reason else []
    clauses = [] if check.condition is None else [check.condition]
    match check.criterion:
        case Clause():
            clauses.append(check.criterion)
        case CounterCheck(word):
            words.append(word)
        case Log():
            pattern = check.criterion.pattern
            captured_words = {brace.word for brace in pattern.captured_words}  # which a line says, and no look
            words = [word for word in words if word not in captured_words] + [
                brace.word for brace in pattern.compared_words
            ]
        case _:
            inquiry = check.criterion.build_query(facts) if _may_apply(check, facts) else Absent("it does not apply")
            query_result = (
                QueryResult(QueryStatus.UNKNOWN) if isinstance(inquiry, Absent) else facts.get_query_result(inquiry)
            )
            return PartnerInputs(copy_facts(clauses, facts, words), inquiry, query_result)
    return PartnerInputs(copy_facts(clauses, facts, words))


def _may_apply(check: Check, facts: QueryFacts) -> bool:
    """Whether it may apply, by what is known of it before its partners are: else nobody is asked."""
    if check.condition is None:
        return True
    health_words = {f"{name}.{word}" for name in check.partner_joins for word in (HEALTHY, REASON)}
    for statement in check.condition.lines:
        clause = replace(check.condition, lines=(statement,))
        verdict = clause.evaluate(facts, THREE_VALUED)
        if verdict is False or (verdict is None and health_words.isdisjoint(line.word for line in clause.walk_lines())):
            return False
    return True


def resolve_partners(check_result: DeviceCheckResult, unhealthy_reasons: Mapping[str, str]) -> DeviceCheckResult:
    """What it says when it is known which of its partners are ill, and why."""
    inputs, check = check_result.inputs, check_result.check
    if inputs is None:
        return check_result
    if inputs.query is not None:
        criterion: QueryTemplate = _KnownQuery(inputs.query)
        check = replace(check, criterion=criterion)
    return check_result._replace(
        result=check.evaluate(
            FactsWithPartnerHealth(inputs.facts, check_result.partners, unhealthy_reasons, inputs.query_result)
        )
    )
