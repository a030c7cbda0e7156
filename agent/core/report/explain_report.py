"""What a running agent adds to an explanation: what a fresh look at the host cannot know."""

from __future__ import annotations

from agent.core.inventory.device import Device
from agent.core.lists.device_lookup import find_devices
from agent.core.lists.transitions import Change
from agent.core.report.agent_snapshot import AgentSnapshot, format_timestamp
from agent.core.report.device_report import JsonObject, build_device_report, build_resource_report
from agent.core.report.status_report import build_problem_reports

SCHEMA = "device-agent/explain/1"


def build_explain_report(moment: AgentSnapshot, name: str) -> JsonObject:
    """The devices that a name means, with what happened to them; or the resource of that name; and in any case all
    that needs a person.
    """
    lists = moment.lists.snapshots
    found = [] if name in lists else find_devices(name, lists.values(), moment.candidates)
    return {
        "schema": SCHEMA,
        "time": format_timestamp(moment.wall_time),
        "config": moment.configuration.digest,
        "kubelet": {
            "up": moment.kubelet.up,
            "since": moment.format_time(moment.kubelet.since),
            "reason": moment.kubelet.reason or None,
        },
        "attention": build_problem_reports(moment),
        "resource": build_resource_report(moment, lists[name]) if name in lists else None,
        "devices": [
            {**build_device_report(moment, resource, device), "history": _history(moment, resource, device)}
            for resource, device in found
        ],
    }


def _history(moment: AgentSnapshot, resource: str, device: Device) -> list[JsonObject]:
    """What changed, oldest first."""
    entry = moment.find_entry(resource)
    checks = frozenset(check.name for check in entry.checks) if entry else frozenset()
    return [_change(moment, one, checks) for one in moment.changes.get((resource, device.id), ())]


def _change(moment: AgentSnapshot, one: Change, checks: frozenset[str]) -> JsonObject:
    return {
        "time": moment.format_time(one.at),
        "from": one.old.value if one.old else None,
        "to": one.new.value if one.new else None,
        "check": one.check if one.check in checks else None,
        "reason": one.reason or None,
    }
