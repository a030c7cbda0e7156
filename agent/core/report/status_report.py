"""The status of an agent, for programs: `device-agent/status/1`. Within a version keys are only added."""

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
_CHANGES = 10  # that are told beside the status
_UP = {True: "up", False: "down", None: None}


def build_status_report(
    moment: AgentSnapshot, only: str | None = None, devices: str | None = None
) -> JsonObject | None:
    """All that there is to say; of one resource and the kubelet only, if one is named; None if there is no such one.

    devices: the resource whose devices are told one by one; None for all. There may be very many.
    """
    lists = moment.lists.snapshots
    if only is not None and only not in lists:
        return None
    found = [one for one in find_problems(moment) if only in (None, one.subject) or one.subject == KUBELET]
    kubelet = moment.kubelet
    return {
        "schema": SCHEMA,
        "time": format_timestamp(moment.wall_time),
        "node": moment.node,
        "version": moment.version,
        "up_seconds": round(moment.current_time - moment.start_time, 3),
        "verdict": "attention" if found else "well",
        "attention": [_problem(moment, one) for one in found],
        "config": {
            "digest": moment.configuration.digest,
            "loaded": moment.format_time(moment.configuration.load_time),
            "files": moment.configuration.file_count,
            "resources": len(lists),
            "errors": moment.configuration.error_count,
            "refused": moment.configuration.reload_error or None,
        },
        "kubelet": {
            "state": _UP[kubelet.up],
            "since": moment.format_time(kubelet.since),
            "reason": kubelet.reason or None,
            "restarts": kubelet.restarts,
        },
        "streaming": sum(
            state.phase is Phase.STREAMING for name, state in moment.states.items() if only in (None, name)
        ),
        "drained": _drained(moment, only),
        "resources": [
            build_resource_report(moment, one, devices=devices in (None, name))
            for name, one in lists.items()
            if only in (None, name)
        ],
        "changes": _changes(moment, only),
    }


def compute_revision(said: object) -> str:
    """The same for statuses that differ in nothing but times: these are reckoned anew for each."""
    return sha256(json.dumps(_timeless(said)).encode()).hexdigest()[:12]


def _timeless(said: object) -> object:
    if isinstance(said, Mapping):
        return {key: _timeless(value) for key, value in said.items() if key not in _TIMES}
    return [*map(_timeless, said)] if isinstance(said, (list, tuple)) else said


def _changes(moment: AgentSnapshot, only: str | None) -> list[JsonObject]:
    """What changed last of all that changed, oldest first."""
    names = [name for name in moment.changes if only in (None, name[0])][-_CHANGES:]
    last = [(moment.changes[name][-1], name) for name in names]
    return [
        {
            "time": moment.format_time(one.at),
            "resource": resource,
            "id": id,
            "from": one.old.value if one.old else None,
            "to": one.new.value if one.new else None,
            "reason": one.reason or None,
        }
        for one, (resource, id) in last  # noqa: A001  the API's own word
    ]


def build_problem_reports(moment: AgentSnapshot) -> list[JsonObject]:
    """All that needs a person."""
    return [_problem(moment, one) for one in find_problems(moment)]


def _problem(moment: AgentSnapshot, one: Problem) -> JsonObject:
    return {
        "subject": one.subject,
        "what": one.state,
        "devices": list(one.devices),
        "places": list(one.locations),
        "since": moment.format_time(one.since),
        "reason": one.reason or None,
        "means": one.effect or None,
        "held_by": [build_holder_report(holder, ()) for holder in one.holders],
        "next": list(one.next_steps),
    }


def _drained(moment: AgentSnapshot, only: str | None) -> list[JsonObject]:
    """All that a person has taken out of scheduling, also what is not there now; of one resource what it has."""
    lists = moment.lists.snapshots
    drained = moment.drains
    whole: list[JsonObject] = [
        {"resource": name, "place": None, "devices": [], "drained": build_drain_report(drain)}
        for name, drain in drained.resources.items()
        if only in (None, name)
    ]
    for place, drain in drained.places.items():
        found = find_devices(place, lists.values(), moment.candidates)
        if only is None or any(resource == only for resource, _ in found):
            devices = [device.id for _, device in found]
            whole.append({"resource": None, "place": place, "devices": devices, "drained": build_drain_report(drain)})
    return whole
