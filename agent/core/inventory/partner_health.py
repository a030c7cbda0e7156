"""The health of partners, after the checks: which partners are unhealthy, and which devices wait for a partner."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol

from agent.core.entry.check import REASON_LIMIT, CheckVerdict
from agent.core.entry.check_results import (
    DeviceCheckResult,
    PartnerDependent,
    PartnerResults,
    add_partner_health,
    resolve_partners,
)
from agent.core.inventory.readiness import find_not_ready_reason
from agent.core.language.safe_text import shorten
from agent.core.reason import NO_REASON, Reason


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
