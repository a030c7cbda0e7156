"""Status of an agent, for programs: `device-agent/status/1`. Within one version, keys are added and never removed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256

from agent.core.lists.device_lookup import find_devices
from agent.core.registration_phase import Phase
from agent.core.report.agent_snapshot import AgentSnapshot, format_timestamp
from agent.core.report.device_report import JsonObject, build_drain_report, build_holder_report, build_resource_report
from agent.core.report.problems import KUBELET, Problem, find_problems

SCHEMA = "device-agent/status/1"
_TIMES = frozenset({"time", "since", "loaded", "in_use_as_of", "up_seconds"})
_MAX_CHANGES = 10  # changes in a status
_STATE_TEXTS = {True: "up", False: "down", None: None}


def build_status_report(
    snapshot: AgentSnapshot, resource_filter: str | None = None, device_filter: str | None = None
) -> JsonObject | None:
    """Return the status, or None if there is no resource with the name `resource_filter`.

    resource_filter: the only resource in the status. Problems of the kubelet are always in the status. None: all
        resources.
    device_filter: the only resource whose devices are in the status, because there can be very many. None: all
        resources.
    """
    lists = snapshot.lists.lists
    if resource_filter is not None and resource_filter not in lists:
        return None
    problems = [
        problem
        for problem in find_problems(snapshot)
        if resource_filter in (None, problem.subject) or problem.subject == KUBELET
    ]
    kubelet = snapshot.kubelet
    return {
        "schema": SCHEMA,
        "time": format_timestamp(snapshot.wall_time),
        "node": snapshot.node,
        "version": snapshot.version,
        "up_seconds": round(snapshot.current_time - snapshot.start_time, 3),
        "verdict": "attention" if problems else "well",
        "attention": [_build_problem_report(snapshot, problem) for problem in problems],
        "config": {
            "digest": snapshot.configuration.digest,
            "loaded": snapshot.format_time(snapshot.configuration.load_time),
            "files": snapshot.configuration.file_count,
            "resources": len(lists),
            "errors": snapshot.configuration.error_count,
            "refused": snapshot.configuration.reload_error or None,
        },
        "kubelet": {
            "state": _STATE_TEXTS[kubelet.up],
            "since": snapshot.format_time(kubelet.since),
            "reason": kubelet.reason or None,
            "restarts": kubelet.restarts,
        },
        "streaming": sum(
            state.phase is Phase.STREAMING for name, state in snapshot.states.items() if resource_filter in (None, name)
        ),
        "drained": _build_drain_reports(snapshot, resource_filter),
        "resources": [
            build_resource_report(snapshot, device_list, devices=device_filter in (None, name))
            for name, device_list in lists.items()
            if resource_filter in (None, name)
        ],
        "changes": _build_change_reports(snapshot, resource_filter),
    }


def compute_revision(status: object) -> str:
    """Return a hash of a status without its times. Statuses that differ only in their times have the same revision."""
    return sha256(json.dumps(_strip_times(status)).encode()).hexdigest()[:12]


def _strip_times(element: object) -> object:
    if isinstance(element, Mapping):
        return {key: _strip_times(value) for key, value in element.items() if key not in _TIMES}
    return [*map(_strip_times, element)] if isinstance(element, (list, tuple)) else element


def _build_change_reports(snapshot: AgentSnapshot, resource_filter: str | None) -> list[JsonObject]:
    """Return the newest changes, oldest first."""
    names = [name for name in snapshot.changes if resource_filter in (None, name[0])][-_MAX_CHANGES:]
    latest_changes = [(snapshot.changes[name][-1], name) for name in names]
    return [
        {
            "time": snapshot.format_time(change.time),
            "resource": resource,
            "id": id,
            "from": change.old_health.value if change.old_health else None,
            "to": change.new_health.value if change.new_health else None,
            "reason": change.reason or None,
        }
        for change, (resource, id) in latest_changes  # noqa: A001  the API's own word
    ]


def build_problem_reports(snapshot: AgentSnapshot) -> list[JsonObject]:
    """Return all problems, for programs."""
    return [_build_problem_report(snapshot, problem) for problem in find_problems(snapshot)]


def _build_problem_report(snapshot: AgentSnapshot, problem: Problem) -> JsonObject:
    return {
        "subject": problem.subject,
        "what": problem.state,
        "devices": list(problem.devices),
        "places": list(problem.locations),
        "since": snapshot.format_time(problem.since),
        "reason": problem.reason or None,
        "means": problem.effect or None,
        "held_by": [build_holder_report(holder, ()) for holder in problem.holders],
        "next": list(problem.next_steps),
    }


def _build_drain_reports(snapshot: AgentSnapshot, resource_filter: str | None) -> list[JsonObject]:
    """Return all drains, also those of absent devices. With `resource_filter`, return only the drains of that
    resource.
    """
    lists = snapshot.lists.lists
    drains = snapshot.drains
    reports: list[JsonObject] = [
        {"resource": name, "place": None, "devices": [], "drained": build_drain_report(drain)}
        for name, drain in drains.resources.items()
        if resource_filter in (None, name)
    ]
    for location, drain in drains.locations.items():
        matches = find_devices(location, lists.values(), snapshot.candidates)
        if resource_filter is None or any(resource == resource_filter for resource, _ in matches):
            devices = [device.id for _, device in matches]
            reports.append(
                {"resource": None, "place": location, "devices": devices, "drained": build_drain_report(drain)}
            )
    return reports
