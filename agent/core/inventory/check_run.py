"""Run the checks of a host device and of its partners, and find the devices that wait for an unhealthy partner."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol

from agent.core.entry.check import REASON_LIMIT, Check, CheckResult, CheckVerdict
from agent.core.entry.check_results import (
    DeviceCheckResult,
    PartnerDependent,
    PartnerResults,
    add_partner_health,
    copy_inputs,
    resolve_partners,
)
from agent.core.entry.fact_copy import copy_facts
from agent.core.entry.joins import Join
from agent.core.entry.partner_checks import PartnerCondition
from agent.core.entry.query import QueryFacts
from agent.core.inventory.device import HostDevice
from agent.core.inventory.facts import Facts
from agent.core.inventory.readiness import find_failed_precondition, find_not_ready_reason
from agent.core.language.safe_text import shorten
from agent.core.language.value import Absent
from agent.core.reason import NO_REASON, Reason


class PartnerFacts(QueryFacts, Protocol):
    """The facts of one device and of its partners."""

    def find_partner(self, join: Join) -> Facts | Absent:
        """Return the facts of a partner, or why there is none."""


def run_checks(
    entry: str, checks: Iterable[Check], joins: Iterable[Join], device: HostDevice, facts: PartnerFacts
) -> Iterator[DeviceCheckResult]:
    """Yield the result of each check of an entry, or of a class, for a device."""
    for check in checks:
        # A missing partner has no health.
        partners = _find_partners(check.partner_joins, joins, facts)
        if partners:
            result, inputs = CheckResult(CheckVerdict.IGNORED), copy_inputs(check, facts)
            device_result = DeviceCheckResult(
                entry, check, device.key, device.location, result, partners=partners, inputs=inputs
            )
            # The result if all partners are healthy. Reports and the kernel log check use it.
            yield resolve_partners(device_result, {})
        else:
            yield DeviceCheckResult(entry, check, device.key, device.location, check.evaluate(facts))


def collect_partner_conditions(
    partner_conditions: Iterable[PartnerCondition],
    partner_joins: Iterable[str],
    joins: Iterable[Join],
    device: HostDevice,
    facts: PartnerFacts,
) -> Iterator[PartnerDependent]:
    """Yield what depends on the health of partners, apart from the checks of the device.

    partner_joins: the names of the joins whose partner health the grant uses.
    """
    for condition in partner_conditions:
        partners = _find_partners(condition.partner_joins, joins, facts)
        yield PartnerDependent(device.key, partners, (condition.clause, copy_facts((condition.clause,), facts)))
    if partners := _find_partners(partner_joins, joins, facts):
        yield PartnerDependent(device.key, partners)


def _find_partners(names: Iterable[str], joins: Iterable[Join], facts: PartnerFacts) -> tuple[PartnerResults, ...]:
    """Return the present partners of these joins, with the results of their checks."""
    join_names = frozenset(names)
    partners = (_find_partner(join, facts) for join in joins if join.name in join_names) if join_names else ()
    return tuple(partner for partner in partners if partner is not None)


def _find_partner(join: Join, facts: PartnerFacts) -> PartnerResults | None:
    partner = facts.find_partner(join)
    partner_checks = join.pool.partner_checks
    if isinstance(partner, Absent) or partner_checks is None:
        return None
    not_ready_reason = find_failed_precondition(partner_checks, partner) or find_not_ready_reason(
        partner_checks.wait, partner
    )
    joins, device = join.pool.joins, partner.device
    check_results = tuple(run_checks(partner_checks.name, partner_checks.checks, joins, device, partner))
    return PartnerResults(
        join.name,
        not_ready_reason,
        check_results,
        tuple(collect_partner_conditions(partner_checks.partner_conditions, (), joins, device, partner)),
    )


class HasPartnerChecks(Protocol):
    """A device whose checks or other conditions can depend on partners."""

    @property
    def check_results(self) -> tuple[DeviceCheckResult, ...]:
        """The results of its checks."""

    @property
    def dependents(self) -> tuple[PartnerDependent, ...]:
        """The other values that depend on partners."""


class FailureReason(Protocol):
    """The function that derives a failure reason from check results."""

    def __call__(self, check_results: Iterable[DeviceCheckResult]) -> Reason:
        """Return why a device with these check results fails, or `NO_REASON`."""


def find_unhealthy_partners(partners: Iterable[PartnerResults], find_failure_reason: FailureReason) -> dict[str, str]:
    """Return the unhealthy reason of each unhealthy partner, by join name. Evaluate every partner."""
    unhealthy_partners: dict[str, str] = {}
    for partner in partners:
        failure_reason = find_failure_reason(partner.check_results)
        partner_wait, _ = find_partner_wait(partner.dependents, find_failure_reason)
        if reason := partner.not_ready_reason or partner_wait or str(failure_reason):
            unhealthy_partners[partner.name] = reason
    return unhealthy_partners


def find_partner_wait(
    dependents: Iterable[PartnerDependent], find_failure_reason: FailureReason
) -> tuple[str, dict[tuple[str, str], str]]:
    """Return why a device waits for a partner, and the unhealthy reasons of its partners.

    The first result is empty if the device does not wait. The second one has the key of the host device and the join
    name as keys.
    """
    not_ready_reason = ""
    reasons: dict[tuple[str, str], str] = {}
    for dependent in dependents:
        unhealthy_partners = find_unhealthy_partners(dependent.partners, find_failure_reason)
        not_ready_reason = not_ready_reason or _find_not_ready_reason(dependent, unhealthy_partners)
        reasons.update(((dependent.device_key, name), reason) for name, reason in unhealthy_partners.items())
    return not_ready_reason, reasons


def resolve_one_look(result: DeviceCheckResult) -> DeviceCheckResult:
    """Return a check result from one look alone. A partner is unhealthy if one of its checks fails in this look."""
    return resolve_partners(result, find_unhealthy_partners(result.partners, find_one_look_failure))


def find_one_look_failure(check_results: Iterable[DeviceCheckResult]) -> Reason:
    """Return why checks fail in one look alone, without their duration."""
    failed_results = (
        result for result in map(resolve_one_look, check_results) if result.result.verdict is CheckVerdict.FAIL
    )
    return next((result.make_failure_reason(result.result.reason) for result in failed_results), NO_REASON)


def list_partners(device: HasPartnerChecks) -> Iterator[PartnerResults]:
    """Yield the partners whose health the device uses."""
    for result in device.check_results:
        yield from result.partners
    for dependent in device.dependents:
        yield from dependent.partners


def list_checks(device: HasPartnerChecks) -> Iterator[DeviceCheckResult]:
    """Yield all checks of a device, those of its partners first."""
    for partner in list_partners(device):
        yield from list_checks(partner)
    yield from device.check_results


def _find_not_ready_reason(dependent: PartnerDependent, unhealthy_partners: Mapping[str, str]) -> str:
    if dependent.wait is None:
        return ""
    clause, facts = dependent.wait
    reason = find_not_ready_reason(
        (clause,),
        add_partner_health(facts, dependent.partners, unhealthy_partners),
    )
    for name, partner_reason in unhealthy_partners.items() if reason else ():
        reason += "" if partner_reason in reason else f" ({name}: {partner_reason})"
    return shorten(reason, REASON_LIMIT)
