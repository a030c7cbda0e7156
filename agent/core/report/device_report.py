"""One device of a list at a moment, and one resource with all of them, for programs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from agent.core.grants.held_ids import Holder
from agent.core.health.drain_overlay import Drain
from agent.core.inventory.device import Device, DeviceList, Health
from agent.core.lists.list_builder import SLOT_KEY
from agent.core.registration_phase import Phase
from agent.core.report.agent_snapshot import STARTING, AgentSnapshot, ResourceState, stamp
from agent.core.report.check_report import checks_of

Said: TypeAlias = Mapping[str, object]

_KUBELET = "kubelet"


def device_of(moment: AgentSnapshot, resource: str, device: Device) -> Said:
    """A device, with its shares as one."""
    found = moment.candidate(resource, device)
    return {
        "resource": resource,
        "id": device.id,
        "address": address(moment, resource, device),
        "place": device.place,
        "health": device.health.value,
        "reason": str(device.reason) or None,
        "since": moment.at(since(moment, resource, device)),
        "drained": drain_said(moment.drained.of(resource, device.places)),
        "leaving": leaving(moment, resource, device),
        "numa": list(device.numa),
        "shares": None if device.shares is None else len(device),
        "told_kubelet": moment.streams[resource].told if resource in moment.streams else False,
        "held_by": [held_by(holder, ids) for holder, ids in holders(moment, resource, [device]).items()],
        "in_pod": found is not None and found.away,
        "may_be_held": not moment.held.isdisjoint(device.ids()),
        "checks": checks_of(moment, resource, device),
    }


def resource_of(moment: AgentSnapshot, snapshot: DeviceList, *, devices: bool = True) -> Said:
    """A resource, with its devices in list order if they are wanted."""
    name = snapshot.resource
    spec = moment.entry(name)
    state = moment.states.get(name, ResourceState(Phase.WAITING, STARTING, moment.started))
    waiting = "" if state.phase is Phase.STREAMING else str(state.reason)
    expect = spec.expect if spec and name == spec.name else None
    return {
        "name": name,
        "state": "retired" if spec is None else state.phase.value,
        "waiting_for": _KUBELET if waiting and state.is_without_kubelet else waiting or None,
        "reason": str(state.reason) or None,
        "since": moment.at(state.since),
        "origin": str(spec.origin) if spec else None,
        "class": (spec.class_name or None) if spec else None,
        "healthy": snapshot.count(Health.HEALTHY),
        "unhealthy": snapshot.count(Health.UNHEALTHY),
        "in_use": None if moment.holders_at is None else sum(resource == name for resource, _ in moment.holders),
        "in_use_as_of": moment.at(moment.holders_at),
        "expected": expect,
        "drained": drain_said(moment.drained.resources.get(name)),
        "streams": moment.streams[name].open if name in moment.streams else 0,
        "not_listed": [
            {"place": one.place, "reason": one.reason} for one in moment.assembly.unlisted if one.resource == name
        ],
        "devices": [device_of(moment, name, device) for device in snapshot.devices] if devices else [],
    }


def address(moment: AgentSnapshot, resource: str, device: Device) -> str:
    """Where a device is, as people say it; where it was, if it is not there."""
    found = moment.candidate(resource, device)
    return found.device.name if found else device.place


def since(moment: AgentSnapshot, resource: str, device: Device) -> float:
    """Since when a device has the health it has; at the earliest since the agent started."""
    for change in reversed(moment.changes.get((resource, device.id), ())):
        if change.new is device.health and change.old is not change.new:
            return change.at
    return moment.started


def leaving(moment: AgentSnapshot, resource: str, device: Device) -> bool:
    """Whether a device is there and offered no more: it is listed only until no pod holds it."""
    if device.gone_since is not None or device.key.startswith(SLOT_KEY):
        return False
    return device.first_share > 0 or moment.candidate(resource, device) is None


def holders(moment: AgentSnapshot, resource: str, devices: Iterable[Device]) -> Mapping[Holder, Sequence[str]]:
    """The containers that hold any of these devices, and the ids that they hold of them."""
    found: dict[Holder, list[str]] = {}
    for device in devices if moment.holders else ():
        for id in device.ids():  # noqa: A001  the API's own word
            for holder in moment.holders.get((resource, id), ()):
                found.setdefault(holder, []).append(id)
    return found


def held_by(holder: Holder, ids: Sequence[str]) -> Said:
    """A container that holds something, for programs."""
    return {"namespace": holder.namespace, "pod": holder.pod, "container": holder.container, "ids": list(ids)}


def drain_said(drain: Drain | None) -> Said | None:
    """What a person has taken out of scheduling, for programs."""
    return None if drain is None else {"reason": drain.reason or None, "since": stamp(drain.since)}
