"""Run all checks of an entry for one host device, and collect what else depends on the health of partners."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

from agent.core.entry.check import Check, CheckResult, CheckVerdict
from agent.core.entry.check_results import (
    DeviceCheckResult,
    PartnerDependent,
    PartnerResults,
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
from agent.core.language.value import Absent


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
