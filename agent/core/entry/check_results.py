"""Results of the checks of one host device at one look, and everything else that depends on the health of partners.

The health of a partner is known after the look, when the checks of the partner are evaluated. A look therefore
copies the facts. The checks are evaluated with these copies.
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
    """The result of a check of an entry for one host device at one look.

    entry: the name of the resource as written in the entry.
    device_key, location: those of the host device.
    member: the name of the host device, if the host device is a group member.
    partners: the partners whose health the check uses.
    inputs: the facts for the evaluation that follows when the health of the partners is known.
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
        """Return the reason of a device that fails this check, with the name of the group member."""
        return Reason(ReasonCause.CHECK, f"{self.member}: {text}" if self.member else text, self.check.name)


class PartnerDependent(NamedTuple):
    """A not-ready condition, or something given, that depends on the health of partners.

    device_key: the key of the host device.
    wait: the not-ready condition (`wait`) and its facts. None for something given, because each grant evaluates its
        condition.
    """

    device_key: str
    partners: tuple[PartnerResults, ...]
    wait: tuple[Clause, FactCopy] | None = None


class PartnerResults(NamedTuple):
    """A partner at one look.

    name: the name of the join.
    not_ready_reason: the reason why the partner is not ready, or an empty string.
    check_results: the results of its checks.
    dependents: what depends on the health of its own partners.
    """

    name: str
    not_ready_reason: str
    check_results: tuple[DeviceCheckResult, ...]
    dependents: tuple[PartnerDependent, ...] = ()


class PartnerInputs(NamedTuple):
    """The inputs of a check at one look, without the health of partners."""

    facts: FactCopy
    query: Query | Absent | None = None
    query_result: QueryResult = QueryResult(QueryStatus.UNKNOWN)


class FactsWithPartnerHealth:
    """The facts of a device, extended with the health of its partners."""

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
        """Return the value of a word."""
        return self._health_values[word] if word in self._health_values else self._facts(word)

    def follow_relation(self, word: str) -> tuple[Knowledge, ...] | Absent:
        """Return the devices of a relation."""
        return self._facts.follow_relation(word)

    def get_query_result(self, inquiry: Query) -> QueryResult:
        """Return the query result of the look. A check has one query."""
        del inquiry
        return self._query_result


class _KnownQuery(NamedTuple):
    """The query of the look."""

    query: Query | Absent

    def build_query(self, facts: FactReader) -> Query | Absent:
        """Return the query of the look."""
        del facts
        return self.query


def read_inputs(check: Check, facts: QueryFacts) -> PartnerInputs:
    """Return all inputs of a check for a device, without the health of partners."""
    words = [slot.word for slot in check.reason.slots] if check.reason else []
    clauses = [] if check.condition is None else [check.condition]
    match check.criterion:
        case Clause():
            clauses.append(check.criterion)
        case CounterCheck(word):
            words.append(word)
        case Log():
            pattern = check.criterion.pattern
            captured_words = {
                brace.word for brace in pattern.captured_words
            }  # their values come from a log line, not from a look
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
    """Return whether the check can apply to the device while the health of partners is unknown.

    If not, no query is sent.
    """
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
    """Return the result of a check with the health of its partners.

    unhealthy_reasons: the reason of each unhealthy partner, by join name.
    """
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
