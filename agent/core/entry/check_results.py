"""Results of the checks of one host device at one look, and everything else that depends on the health of partners.

The health of a partner is known after the look, when the checks of the partner are evaluated. A look therefore
copies the facts. The checks are evaluated with these copies.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from agent.core.entry.check import Check, CheckResult
from agent.core.entry.fact_copy import FactCopy, copy_facts
from agent.core.entry.partner_checks import HEALTHY, REASON
from agent.core.entry.query import QueryFacts
from agent.core.language.clause import Clause
from agent.core.language.logic import THREE_VALUED
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
    inputs: FactCopy | None = None

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


def add_partner_health(
    facts: FactCopy, partners: Iterable[PartnerResults], unhealthy_reasons: Mapping[str, str]
) -> FactCopy:
    """Return the facts with the health of the partners.

    unhealthy_reasons: the reason of each unhealthy partner, by join name.
    """
    words: dict[str, Value | Absent] = {}
    for partner in partners:
        words[f"{partner.name}.{HEALTHY}"] = partner.name not in unhealthy_reasons
        words[f"{partner.name}.{REASON}"] = unhealthy_reasons.get(partner.name) or Absent("it is healthy")
    return facts.add_words(words)


def copy_inputs(check: Check, facts: QueryFacts) -> FactCopy:
    """Return all facts that a check uses for a device, without the health of partners.

    If the check cannot apply, these are only the facts of its condition: a read can start a probe.
    """
    if check.condition is not None and not _may_apply(check.condition, check.partner_joins, facts):
        return copy_facts((check.condition,), facts)
    captured_words = check.criterion.list_captured_words()
    reason_words = [slot.word for slot in check.reason.slots] if check.reason else []
    words = (*(word for word in reason_words if word not in captured_words), *check.criterion.list_words())
    inputs = copy_facts(check.list_clauses(), facts, words)
    query = check.criterion.build_query(facts)
    if query is None or isinstance(query, Absent):
        return inputs
    return replace(inputs, query_results={query: facts.get_query_result(query)})


def _may_apply(condition: Clause, partner_joins: Iterable[str], facts: QueryFacts) -> bool:
    """Return whether a check can apply to the device while the health of partners is unknown."""
    health_words = {f"{name}.{word}" for name in partner_joins for word in (HEALTHY, REASON)}
    for statement in condition.lines:
        clause = replace(condition, lines=(statement,))
        verdict = clause.evaluate(facts, THREE_VALUED)
        if verdict is False or (verdict is None and health_words.isdisjoint(line.word for line in clause.walk_lines())):
            return False
    return True


def resolve_partners(check_result: DeviceCheckResult, unhealthy_reasons: Mapping[str, str]) -> DeviceCheckResult:
    """Return the result of a check with the health of its partners; see `add_partner_health`."""
    if check_result.inputs is None:
        return check_result
    facts = add_partner_health(check_result.inputs, check_result.partners, unhealthy_reasons)
    return check_result._replace(result=check_result.check.evaluate(facts))
