"""Asking all checks of an entry of one host device, and what of it hangs on the health of partners."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

from agent.core.entry.check import Check, CheckResult, CheckVerdict
from agent.core.entry.check_results import (
    DeviceCheckResult,
    PartnerDependent,
    PartnerResults,
    read_inputs,
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
    """What is known of one device and of its partners."""

    def find_partner(self, join: Join) -> Facts | Absent:
        """What is known of a partner."""


def run_checks(
    entry: str, checks: Iterable[Check], joins: Iterable[Join], device: HostDevice, facts: PartnerFacts
) -> Iterator[DeviceCheckResult]:
    """What each check of an entry, or of a class, says of a device."""
    for check in checks:
        # Of one that is not there nothing is known, and of its health neither.
        behind = _behind(check.partner_joins, joins, facts)
        if behind:
            said, read = CheckResult(CheckVerdict.IGNORED), read_inputs(check, facts)
            of = DeviceCheckResult(entry, check, device.key, device.location, said, partners=behind, inputs=read)
            yield resolve_partners(
                of, {}
            )  # as it is if all are well: for people, and for who listens to the kernel log
        else:
            yield DeviceCheckResult(entry, check, device.key, device.location, check.evaluate(facts))


def collect_partner_conditions(
    hinges: Iterable[PartnerCondition],
    given: Iterable[str],
    joins: Iterable[Join],
    device: HostDevice,
    facts: PartnerFacts,
) -> Iterator[PartnerDependent]:
    """What hangs on the health of partners of a device beside its checks.

    given: the names of the joins of whose partners' health it is spoken where something is given.
    """
    for hinge in hinges:
        behind = _behind(hinge.partner_joins, joins, facts)
        yield PartnerDependent(device.key, behind, (hinge.clause, copy_facts((hinge.clause,), facts)))
    if behind := _behind(given, joins, facts):
        yield PartnerDependent(device.key, behind)


def _behind(names: Iterable[str], joins: Iterable[Join], facts: PartnerFacts) -> tuple[PartnerResults, ...]:
    """The partners that are there of these joins."""
    wanted = frozenset(names)
    found = (_partner(join, facts) for join in joins if join.name in wanted) if wanted else ()
    return tuple(one for one in found if one is not None)


def _partner(join: Join, facts: PartnerFacts) -> PartnerResults | None:
    partner = facts.find_partner(join)
    cared = join.pool.partner_checks
    if isinstance(partner, Absent) or cared is None:
        return None
    waits = find_failed_precondition(cared, partner) or find_not_ready_reason(cared.wait, partner)
    joins, device = join.pool.joins, partner.device
    said = tuple(run_checks(cared.name, cared.checks, joins, device, partner))
    return PartnerResults(
        join.name, waits, said, tuple(collect_partner_conditions(cared.partner_conditions, (), joins, device, partner))
    )
