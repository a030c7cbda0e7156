"""The status of an agent, for programs: `device-agent/status/1`. Within a version keys are only added."""

from __future__ import annotations

from agent.core.lists.called import called
from agent.core.phase import Phase
from agent.core.report.devices import Said, drain_said, held_by, resource_of
from agent.core.report.moment import Moment, stamp
from agent.core.report.problems import KUBELET, Problem, problems

SCHEMA = "device-agent/status/1"
_UP = {True: "up", False: "down", None: None}


def status(moment: Moment, only: str | None = None, devices: str | None = None) -> Said | None:
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
        "drained": _drained(moment),
        "resources": [
            resource_of(moment, one, devices=devices in (None, name))
            for name, one in lists.items()
            if only in (None, name)
        ],
    }


def attention(moment: Moment) -> list[Said]:
    """All that needs a person."""
    return [_problem(moment, one) for one in problems(moment)]


def _problem(moment: Moment, one: Problem) -> Said:
    return {
        "subject": one.subject,
        "what": one.what,
        "devices": list(one.devices),
        "since": moment.at(one.since),
        "reason": one.reason or None,
        "held_by": [held_by(holder, ()) for holder in one.held_by],
        "next": list(one.next),
    }


def _drained(moment: Moment) -> list[Said]:
    """All that a person has taken out of scheduling, also what is not there now."""
    lists = moment.assembly.snapshots
    drained = moment.drained
    whole: list[Said] = [
        {"resource": name, "place": None, "devices": [], "drained": drain_said(drain)}
        for name, drain in drained.resources.items()
    ]
    return whole + [
        {
            "resource": None,
            "place": place,
            "devices": [device.id for _, device in called(place, lists.values(), moment.offers)],
            "drained": drain_said(drain),
        }
        for place, drain in drained.places.items()
    ]
