"""Check results of a device, for programs.

A verdict is `ok`, `failing`, `unknown` or `not asked`. Each report has its start time and the condition for recovery.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from agent.core.entry.check import ONE_LOOK, CheckVerdict
from agent.core.entry.check_results import DeviceCheckResult
from agent.core.entry.check_state import HEALTHY, CheckState
from agent.core.entry.kernel_log_check import LOG_HEAD
from agent.core.health.check_states import DeviceCheckStates, DeviceRef
from agent.core.inventory.device import Device
from agent.core.report.agent_snapshot import AgentSnapshot

FAILING = "failing"
CLEAR = "after repair, by device-agent clear"
_VERDICTS = {
    CheckVerdict.PASS: "ok",
    CheckVerdict.FAIL: "ok",  # until the failure threshold is reached
    CheckVerdict.IGNORED: "unknown",
    CheckVerdict.PENDING: "unknown",
    CheckVerdict.NOT_APPLICABLE: "not asked",
}


def build_check_reports(snapshot: AgentSnapshot, resource: str, device: Device) -> list[Mapping[str, object]]:
    """Return the checks of a device. Failing checks come first, then the order of the file.

    For an absent device, return the checks that failed when the device disappeared.
    """
    candidate = snapshot.find_candidate(resource, device)
    rows = (
        list(_build_absent_rows(snapshot, resource, device))
        if candidate is None
        else [_build_row(snapshot, result) for result in candidate.check_results]
    )
    return sorted(rows, key=lambda row: row["verdict"] != FAILING)


def _build_row(snapshot: AgentSnapshot, result: DeviceCheckResult) -> Mapping[str, object]:
    device_states = snapshot.check_states.present_devices.get(DeviceRef(result.entry, result.device_key))
    state = (device_states.check_states if device_states else {}).get(result.check.name, HEALTHY)
    row = _build_failing_row(snapshot, result.check.name, state, result.member)
    if state.failing:
        if state.never_healthy:
            return {**row, "recovers": f"by itself, after {ONE_LOOK.format('good')}: it was never well"}
        recovery = None if state.latched else result.check.criterion.describe_recovery(result.check)
        recovers = CLEAR if recovery is None else f"by itself, {recovery}"
        return {**row, "latched": recovery is None, "recovers": recovers}
    if result.result.log_keys is not None and snapshot.kernel_log_fault:
        return {**row, "verdict": "unknown", "reason": f"{LOG_HEAD}{snapshot.kernel_log_fault}"}
    reason = result.result.reason
    if result.result.verdict is CheckVerdict.FAIL:
        reason = f"{reason}; it fails after {result.check.failure_threshold.format()}"
    return {**row, "verdict": _VERDICTS[result.result.verdict], "reason": reason or None}


def _build_absent_rows(snapshot: AgentSnapshot, resource: str, device: Device) -> Iterator[Mapping[str, object]]:
    entry = snapshot.lists.written_names.get(resource) or resource
    for location in device.locations:
        device_states = snapshot.check_states.absent_devices.get(
            DeviceRef(entry, location), DeviceCheckStates(location, {})
        )
        for name, state in device_states.check_states.items():
            if state.failing:
                yield {**_build_failing_row(snapshot, name, state, ""), "recovers": "when it is back"}


def _build_failing_row(snapshot: AgentSnapshot, name: str, state: CheckState, member: str) -> Mapping[str, object]:
    return {
        "check": name,
        "member": member or None,
        "verdict": FAILING,
        "latched": False,
        "since": snapshot.format_time(state.changed_at),
        "reason": state.reason or None,
        "evidence": state.evidence or None,
        "recovers": None,
    }
