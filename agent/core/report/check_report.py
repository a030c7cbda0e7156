"""What each check of a device says at a moment: `ok`, `failing`, `unknown` or `not asked`, since when, and what heals
it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from agent.core.entry.check import ONE_LOOK, Check, CheckVerdict, FailureThreshold, LookCount, LookDuration
from agent.core.entry.check_results import DeviceCheckResult
from agent.core.entry.kernel_log_check import EventRate
from agent.core.health.check_state import HEALTHY, LOG_HEAD, CheckState
from agent.core.health.check_states import DeviceCheckStates, DeviceRef
from agent.core.inventory.device import Device
from agent.core.report.agent_snapshot import AgentSnapshot

FAILING = "failing"
CLEAR = "after repair, by device-agent clear"
_SAID = {
    CheckVerdict.PASS: "ok",
    CheckVerdict.FAIL: "ok",  # as long as it takes to fail
    CheckVerdict.IGNORED: "unknown",
    CheckVerdict.PENDING: "unknown",
    CheckVerdict.NOT_APPLICABLE: "not asked",
}


def build_check_reports(moment: AgentSnapshot, resource: str, device: Device) -> list[Mapping[str, object]]:
    """The checks of a device, for programs; what fails comes first, else in file order.

    Of a device that is not there, those that failed when it left.
    """
    found = moment.find_candidate(resource, device)
    rows = (
        list(_left(moment, resource, device)) if found is None else [_row(moment, one) for one in found.check_results]
    )
    return sorted(rows, key=lambda row: row["verdict"] != FAILING)


def _row(moment: AgentSnapshot, one: DeviceCheckResult) -> Mapping[str, object]:
    ward = moment.check_states.there.get(DeviceRef(one.entry, one.device_key))
    condition = (ward.conditions if ward else {}).get(one.check.name, HEALTHY)
    row = _said(moment, one.check.name, condition, one.member)
    if condition.failing:
        log = one.check.log
        if condition.early:
            return {**row, "recovers": f"by itself, after {_after(ONE_LOOK, 'good')}: it was never well"}
        latched = condition.latched or (log.recovery_s if log else one.check.recovery_threshold) is None
        return {**row, "latched": latched, "recovers": CLEAR if latched else _recovers(one.check)}
    if one.result.subscription is not None and moment.kernel_log_fault:
        return {**row, "verdict": "unknown", "reason": f"{LOG_HEAD}{moment.kernel_log_fault}"}
    reason = one.result.reason
    if one.result.verdict is CheckVerdict.FAIL:
        reason = f"{reason}; it fails after {_after(one.check.failure_threshold)}"
    return {**row, "verdict": _SAID[one.result.verdict], "reason": reason or None}


def _left(moment: AgentSnapshot, resource: str, device: Device) -> Iterator[Mapping[str, object]]:
    entry = moment.lists.written.get(resource) or resource
    for place in device.places:
        ward = moment.check_states.left.get(DeviceRef(entry, place), DeviceCheckStates(place, {}))
        for name, condition in ward.conditions.items():
            if condition.failing:
                yield {**_said(moment, name, condition, ""), "recovers": "when it is back"}


def _said(moment: AgentSnapshot, name: str, condition: CheckState, member: str) -> Mapping[str, object]:
    return {
        "check": name,
        "member": member or None,
        "verdict": FAILING,
        "latched": False,
        "since": moment.format_time(condition.turned),
        "reason": condition.reason or None,
        "evidence": condition.evidence or None,
        "recovers": None,
    }


def _recovers(check: Check) -> str:
    if check.log is not None:
        return f"by itself, after {check.log.recovery_s or 0:g} s without such a line"
    return CLEAR if check.recovery_threshold is None else f"by itself, after {_after(check.recovery_threshold, 'good')}"


def _after(after: FailureThreshold, kind: str = "such") -> str:
    match after:
        case LookCount(number):
            return f"{number} {kind} look{'s' * (number != 1)}"
        case LookDuration(seconds):
            return f"{seconds:g} s of {kind} looks"
        case EventRate(number, seconds):
            return f"{number} within {seconds:g} s"
