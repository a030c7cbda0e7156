"""The part of an explanation that only a running agent knows."""

from __future__ import annotations

from agent.core.inventory.device import Device
from agent.core.lists.device_lookup import find_devices
from agent.core.lists.transitions import TransitionRecord
from agent.core.report.agent_snapshot import AgentSnapshot, format_timestamp
from agent.core.report.device_report import JsonObject, build_device_report, build_resource_report
from agent.core.report.status_report import build_problem_reports

SCHEMA = "device-agent/explain/1"


def build_explain_report(snapshot: AgentSnapshot, name: str) -> JsonObject:
    """Return the devices or the resource with this name, and all problems.

    Each device has its history. A resource name has precedence over a device name.
    """
    lists = snapshot.lists.lists
    matches = [] if name in lists else find_devices(name, lists.values(), snapshot.candidates)
    return {
        "schema": SCHEMA,
        "time": format_timestamp(snapshot.wall_time),
        "config": snapshot.configuration.digest,
        "kubelet": {
            "up": snapshot.kubelet.up,
            "since": snapshot.format_time(snapshot.kubelet.since),
            "reason": snapshot.kubelet.reason or None,
        },
        "attention": build_problem_reports(snapshot),
        "resource": build_resource_report(snapshot, lists[name]) if name in lists else None,
        "devices": [
            {**build_device_report(snapshot, resource, device), "history": _build_history(snapshot, resource, device)}
            for resource, device in matches
        ],
    }


def _build_history(snapshot: AgentSnapshot, resource: str, device: Device) -> list[JsonObject]:
    """Return the changes of a device, oldest first."""
    entry = snapshot.find_entry(resource)
    checks = frozenset(check.name for check in entry.checks) if entry else frozenset()
    return [_build_change(snapshot, change, checks) for change in snapshot.changes.get((resource, device.id), ())]


def _build_change(snapshot: AgentSnapshot, change: TransitionRecord, checks: frozenset[str]) -> JsonObject:
    return {
        "time": snapshot.format_time(change.time),
        "from": change.old_health.value if change.old_health else None,
        "to": change.new_health.value if change.new_health else None,
        "check": change.check if change.check in checks else None,
        "reason": change.reason or None,
    }
