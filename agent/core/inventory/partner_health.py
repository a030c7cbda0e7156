"""What hangs on the health of partners, once that is known: which of them are ill, who waits for one, what is given."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol

from agent.core.entry.check import REASON_LIMIT, CheckVerdict
from agent.core.entry.check_results import (
    DeviceCheckResult,
    FactsWithPartnerHealth,
    PartnerDependent,
    PartnerResults,
    resolve_partners,
)
from agent.core.entry.query import QueryResult, QueryStatus
from agent.core.inventory.readiness import find_not_ready_reason
from agent.core.language.safe_text import shorten
from agent.core.reason import NO_REASON, Reason


class HasPartnerChecks(Protocol):
    """A device of which something is said that may hang on partners."""

    @property
    def check_results(self) -> tuple[DeviceCheckResult, ...]:
        """What its checks say."""

    @property
    def dependents(self) -> tuple[PartnerDependent, ...]:
        """What else hangs on partners."""


class FailureReason(Protocol):
    """Who says what comes of checks."""

    def __call__(self, check_results: Iterable[DeviceCheckResult]) -> Reason:
        """Return why the device fails that has these checks; `NO_REASON` if it does not."""


def find_unhealthy_partners(partners: Iterable[PartnerResults], find_failure_reason: FailureReason) -> dict[str, str]:
    """Which partners are not healthy, by the joins' names, and why. Each is judged, whatever is known already."""
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
    """Why a device is held back for a partner, empty if it is not; and why those of its partners are ill that are, by
    the key of the host device and the join's name.
    """
    not_ready_reason = ""
    reasons: dict[tuple[str, str], str] = {}
    for dependent in dependents:
        unhealthy_partners = find_unhealthy_partners(dependent.partners, find_failure_reason)
        not_ready_reason = not_ready_reason or _find_not_ready_reason(dependent, unhealthy_partners)
        reasons.update(((dependent.device_key, name), reason) for name, reason in unhealthy_partners.items())
    return not_ready_reason, reasons


def resolve_one_look(result: DeviceCheckResult) -> DeviceCheckResult:
    """What a check says at a single look: a partner is ill of which a check does not hold."""
    return resolve_partners(result, find_unhealthy_partners(result.partners, find_one_look_failure))


def find_one_look_failure(check_results: Iterable[DeviceCheckResult]) -> Reason:
    """Why checks fail at a single look, which cannot know for how long."""
    failed_results = (
        result for result in map(resolve_one_look, check_results) if result.result.verdict is CheckVerdict.FAIL
    )
    return next((result.make_failure_reason(result.result.reason) for result in failed_results), NO_REASON)


def list_partners(device: HasPartnerChecks) -> Iterator[PartnerResults]:
    """Of whose health is spoken."""
    for result in device.check_results:
        yield from result.partners
    for dependent in device.dependents:
        yield from dependent.partners


def list_checks(device: HasPartnerChecks) -> Iterator[DeviceCheckResult]:
    """All checks of a device, those of partners of whose health it speaks among them."""
    for partner in list_partners(device):
        yield from list_checks(partner)
    yield from device.check_results


def _find_not_ready_reason(dependent: PartnerDependent, unhealthy_partners: Mapping[str, str]) -> str:
    if dependent.wait is None:
        return ""
    clause, facts = dependent.wait
    reason = find_not_ready_reason(
        (clause,),
        FactsWithPartnerHealth(facts, dependent.partners, unhealthy_partners, QueryResult(QueryStatus.UNKNOWN)),
    )
    for name, partner_reason in unhealthy_partners.items() if reason else ():
        reason += "" if partner_reason in reason else f" ({name}: {partner_reason})"
    return shorten(reason, REASON_LIMIT)
