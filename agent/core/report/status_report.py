"""The status of an agent, for programs: `device-agent/status/1`. Within a version keys are only added."""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256

from agent.core.lists.device_lookup import find_devices
from agent.core.registration_phase import Phase
from agent.core.report.agent_snapshot import AgentSnapshot, stamp
from agent.core.report.device_report import Said, drain_said, held_by, resource_of
from agent.core.report.problems import KUBELET, Problem, problems

SCHEMA = "device-agent/status/1"
_TIMES = frozenset({"time", "since", "loaded", "in_use_as_of", "up_seconds"})
_CHANGES = 10  # that are told beside the status
_UP = {True: "up", False: "down", None: None}


def status(moment: AgentSnapshot, only: str | None = None, devices: str | None = None) -> Said | None:
    """All that there is to say; of one resource and the kubelet only, if one is named; None if there is no such one.

    devices: the resource whose devices are told one by one; None for all. There may be very many.
    """
    lists = moment.assembly.snapshots
    if only is not None and only not in lists:
        return None
    found = [one for one in problems(moment) if only in (None, one.subject) or one.subject == KUBELET]
    kubelet = moment.kubelet
    return {
        "schema": SCHEMA,
        "time": stamp(moment.time),
        "node": moment.node,
        "version": moment.version,
        "up_seconds": round(moment.now - moment.started, 3),
        "verdict": "attention" if found else "well",
        "attention": [_problem(moment, one) for one in found],
        "config": {
            "digest": moment.configuration.digest,
            "loaded": moment.at(moment.configuration.loaded),
            "files": moment.configuration.files,
            "resources": len(lists),
            "errors": moment.configuration.errors,
            "refused": moment.configuration.refused or None,
        },
        "kubelet": {
            "state": _UP[kubelet.up],
            "since": moment.at(kubelet.since),
            "reason": kubelet.reason or None,
            "restarts": kubelet.restarts,
        },
        "streaming": sum(
            state.phase is Phase.STREAMING for name, state in moment.states.items() if only in (None, name)
        ),
        "drained": _drained(moment, only),
        "resources": [
            resource_of(moment, one, devices=devices in (None, name))
            for name, one in lists.items()
            if only in (None, name)
        ],
        "changes": _changes(moment, only),
    }


def revision(said: object) -> str:
    """The same for statuses that differ in nothing but times: these are reckoned anew for each."""
    return sha256(json.dumps(_timeless(said)).encode()).hexdigest()[:12]


def _timeless(said: object) -> object:
    if isinstance(said, Mapping):
        return {key: _timeless(value) for key, value in said.items() if key not in _TIMES}
    return [*map(_timeless, said)] if isinstance(said, (list, tuple)) else said


def _changes(moment: AgentSnapshot, only: str | None) -> list[Said]:
    """What changed last of all that changed, oldest first."""
    names = [name for name in moment.changes if only in (None, name[0])][-_CHANGES:]
    last = [(moment.changes[name][-1], name) for name in names]
    return [
        {
            "time": moment.at(one.at),
            "resource": resource,
            "id": id,
            "from": one.old.value if one.old else None,
            "to": one.new.value if one.new else None,
            "reason": one.reason or None,
        }
        for one, (resource, id) in last  # noqa: A001  the API's own word
    ]


def attention(moment: AgentSnapshot) -> list[Said]:
    """All that needs a person."""
    return [_problem(moment, one) for one in problems(moment)]


def _problem(moment: AgentSnapshot, one: Problem) -> Said:
    return {
        "subject": one.subject,
        "what": one.what,
        "devices": list(one.devices),
        "places": list(one.places),
        "since": moment.at(one.since),
        "reason": one.reason or None,
        "means": one.means or None,
        "held_by": [held_by(holder, ()) for holder in one.held_by],
        "next": list(one.next),
    }


def _drained(moment: AgentSnapshot, only: str | None) -> list[Said]:
    """All that a person has taken out of scheduling, also what is not there now; of one resource what it has."""
    lists = moment.assembly.snapshots
    drained = moment.drained
    whole: list[Said] = [
        {"resource": name, "place": None, "devices": [], "drained": drain_said(drain)}
        for name, drain in drained.resources.items()
        if only in (None, name)
    ]
    for place, drain in drained.places.items():
        found = find_devices(place, lists.values(), moment.offers)
        if only is None or any(resource == only for resource, _ in found):
            devices = [device.id for _, device in found]
            whole.append({"resource": None, "place": place, "devices": devices, "drained": drain_said(drain)})
    return whole
