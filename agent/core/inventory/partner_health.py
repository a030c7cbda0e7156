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

    def __call__(self, checked: Iterable[DeviceCheckResult]) -> Reason:
        """Return why the device fails that has these checks; `NO_REASON` if it does not."""


def find_unhealthy_partners(behind: Iterable[PartnerResults], verdict: FailureReason) -> dict[str, str]:
    """Which partners are not healthy, by the joins' names, and why. Each is judged, whatever is known already."""
    ill: dict[str, str] = {}
    for one in behind:
        fails = verdict(one.check_results)
        held, _ = find_partner_wait(one.dependents, verdict)
        if why := one.not_ready_reason or held or str(fails):
            ill[one.name] = why
    return ill


def find_partner_wait(
    hung: Iterable[PartnerDependent], verdict: FailureReason
) -> tuple[str, dict[tuple[str, str], str]]:
    """Why a device is held back for a partner, empty if it is not; and why those of its partners are ill that are, by
    the key of the host device and the join's name.
    """
    waits = ""
    ailing: dict[tuple[str, str], str] = {}
    for one in hung:
        ill = find_unhealthy_partners(one.partners, verdict)
        waits = waits or _waits(one, ill)
        ailing.update(((one.device_key, name), why) for name, why in ill.items())
    return waits, ailing


def resolve_one_look(checked: DeviceCheckResult) -> DeviceCheckResult:
    """What a check says at a single look: a partner is ill of which a check does not hold."""
    return resolve_partners(checked, find_unhealthy_partners(checked.partners, find_one_look_failure))


def find_one_look_failure(checked: Iterable[DeviceCheckResult]) -> Reason:
    """Why checks fail at a single look, which cannot know for how long."""
    bad = (one for one in map(resolve_one_look, checked) if one.result.verdict is CheckVerdict.FAIL)
    return next((one.make_failure_reason(one.result.reason) for one in bad), NO_REASON)


def list_partners(one: HasPartnerChecks) -> Iterator[PartnerResults]:
    """Of whose health is spoken."""
    for each in one.check_results:
        yield from each.partners
    for other in one.dependents:
        yield from other.partners


def list_checks(one: HasPartnerChecks) -> Iterator[DeviceCheckResult]:
    """All checks of a device, those of partners of whose health it speaks among them."""
    for behind in list_partners(one):
        yield from list_checks(behind)
    yield from one.check_results


def _waits(one: PartnerDependent, ill: Mapping[str, str]) -> str:
    if one.wait is None:
        return ""
    clause, read = one.wait
    said = find_not_ready_reason(
        (clause,), FactsWithPartnerHealth(read, one.partners, ill, QueryResult(QueryStatus.UNKNOWN))
    )
    for name, why in ill.items() if said else ():
        said += "" if why in said else f" ({name}: {why})"
    return shorten(said, REASON_LIMIT)
