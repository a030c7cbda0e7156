"""What a running agent is asked by commands, and what it answers: the other side of the control socket."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agent.app import Agent
from agent.config.toml.finding import as_json, render
from agent.configured import Configured, Outcome
from agent.control import Answer, Answering
from agent.core.inventory.device import Device, Snapshot


def commands(configured: Configured, agent: Agent) -> Mapping[str, Answering]:
    """The requests that an agent answers, by name."""

    async def reload(request: Mapping[str, Any]) -> Answer:
        outcome = await (configured.rehearse() if request.get("dry_run") is True else configured.reload())
        return reloaded(outcome)

    async def clear(request: Mapping[str, Any]) -> Answer:
        name, check = request.get("device"), request.get("check")
        if not isinstance(name, str) or not (check is None or isinstance(check, str)):
            return {"error": "clear asks for a device, and perhaps for a check"}
        lists = agent.tracker.assembly.snapshots.values()
        found = [(list_.resource, device) for list_ in lists for device in _called(list_, name)]
        cleared = [await agent.tracker.clear(resource, device, check) for resource, device in found]
        return {"devices": [_after(agent, *one, checks) for one, checks in zip(found, cleared, strict=True)]}

    return {"reload": reload, "clear": clear}


def _called(snapshot: Snapshot, name: str) -> list[Device]:
    """The devices of a list that a person means: by id, that of one share, or their place."""
    found = snapshot.find(name)
    by_name = [device for device in snapshot.devices if name in {device.id, *device.places}]
    return [found[0]] if found else by_name


def _after(agent: Agent, resource: str, device: Device, cleared: frozenset[str]) -> Answer:
    """What a device is like after some checks of it were cleared."""
    list_ = agent.tracker.assembly.snapshots.get(resource) or Snapshot(resource)
    now = next((other for other in list_.devices if other.form == device.form), None)
    return {
        "resource": resource,
        "id": device.id,
        "cleared": sorted(cleared),
        "health": now.health.value if now else None,
        "reason": (now.reason if now else "") or None,
    }


def reloaded(outcome: Outcome) -> Answer:
    """A reload as JSON."""
    change = outcome.difference
    names = (
        {}
        if change is None
        else {
            "unchanged": list(change.unchanged),
            "changed": [*change.changed, *change.moved],
            "added": list(change.added),
            "removed": list(change.removed),
        }
    )
    return {
        "before": outcome.before,
        "after": outcome.after,
        "refused": outcome.refused or None,
        "resources": names,
        "findings": [{**as_json(finding), "text": render(finding)} for finding in outcome.findings],
        "seconds": round(outcome.seconds, 3),
    }
