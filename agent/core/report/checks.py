"""What each check of a device says at a moment: `ok`, `failing`, `unknown` or `not asked`, since when, and what heals
it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from agent.core.entry.check import ONE, Check, Lasting, Looks, Says, Trip
from agent.core.entry.checked import Checked
from agent.core.entry.log import Often
from agent.core.health.condition import HEALTHY, Condition
from agent.core.health.conditions import Spot, Ward
from agent.core.inventory.device import Device
from agent.core.report.moment import Moment

FAILING = "failing"
CLEAR = "after repair, by device-agent clear"
_SAID = {
    Says.GOOD: "ok",
    Says.BAD: "ok",  # as long as it takes to fail
    Says.NOTHING: "unknown",
    Says.AWAITED: "unknown",
    Says.BESIDE: "not asked",
}


def checks_of(moment: Moment, resource: str, device: Device) -> list[Mapping[str, object]]:
    """The checks of a device, for programs; what fails comes first, else in file order.

    Of a device that is not there, those that failed when it left.
    """
    found = moment.candidate(resource, device)
    rows = list(_left(moment, resource, device)) if found is None else [_row(moment, one) for one in found.checked]
    return sorted(rows, key=lambda row: row["verdict"] != FAILING)


def _row(moment: Moment, one: Checked) -> Mapping[str, object]:
    ward = moment.conditions.there.get(Spot(one.entry, one.key))
    condition = (ward.conditions if ward else {}).get(one.check.name, HEALTHY)
    row = _said(moment, one.check.name, condition, one.member)
    if condition.failing:
        log = one.check.log
        if condition.early:
            return {**row, "recovers": f"by itself, after {_after(ONE, 'good')}: it was never well"}
        latched = condition.latched or (log.recover if log else one.check.recover) is None
        return {**row, "latched": latched, "recovers": CLEAR if latched else _recovers(one.check)}
    if one.outcome.ear is not None and moment.deaf:
        return {**row, "verdict": "unknown", "reason": f"the kernel log: {moment.deaf}"}
    reason = one.outcome.reason
    if one.outcome.says is Says.BAD:
        reason = f"{reason}; it fails after {_after(one.check.trip)}"
    return {**row, "verdict": _SAID[one.outcome.says], "reason": reason or None}


def _left(moment: Moment, resource: str, device: Device) -> Iterator[Mapping[str, object]]:
    entry = moment.assembly.written.get(resource) or resource
    for place in device.places:
        ward = moment.conditions.left.get(Spot(entry, place), Ward(place, {}))
        for name, condition in ward.conditions.items():
            if condition.failing:
                yield {**_said(moment, name, condition, ""), "recovers": "when it is back"}


def _said(moment: Moment, name: str, condition: Condition, member: str) -> Mapping[str, object]:
    return {
        "check": name,
        "member": member or None,
        "verdict": FAILING,
        "latched": False,
        "since": moment.at(condition.turned),
        "reason": condition.reason or None,
        "evidence": condition.evidence or None,
        "recovers": None,
    }


def _recovers(check: Check) -> str:
    if check.log is not None:
        return f"by itself, after {check.log.recover or 0:g} s without such a line"
    return CLEAR if check.recover is None else f"by itself, after {_after(check.recover, 'good')}"


def _after(after: Trip, kind: str = "such") -> str:
    match after:
        case Looks(number):
            return f"{number} {kind} look{'s' * (number != 1)}"
        case Lasting(seconds):
            return f"{seconds:g} s of {kind} looks"
        case Often(number, seconds):
            return f"{number} within {seconds:g} s"
