"""One device of a list at a moment, and one resource with all of them, for programs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from agent.core.grants.held_ids import Holder
from agent.core.health.drain_overlay import Drain
from agent.core.inventory.device import Device, DeviceList, Health
from agent.core.lists.list_builder import SLOT_KEY
from agent.core.registration_phase import Phase
from agent.core.report.agent_snapshot import STARTING, AgentSnapshot, ResourceState, format_timestamp
from agent.core.report.check_report import build_check_reports

JsonObject: TypeAlias = Mapping[str, object]

_KUBELET = "kubelet"


def build_device_report(moment: AgentSnapshot, resource: str, device: Device) -> JsonObject:
    """A device, with its shares as one."""
    found = moment.find_candidate(resource, device)
    return {
        "resource": resource,
        "id": device.id,
        "address": find_address(moment, resource, device),
        "place": device.place,
        "health": device.health.value,
        "reason": str(device.reason) or None,
        "since": moment.format_time(find_health_time(moment, resource, device)),
        "drained": build_drain_report(moment.drains.of(resource, device.places)),
        "leaving": is_retiring(moment, resource, device),
        "numa": list(device.numa),
        "shares": None if device.shares is None else len(device),
        "told_kubelet": moment.streams[resource].has_newest_list if resource in moment.streams else False,
        "held_by": [
            build_holder_report(holder, ids) for holder, ids in find_holders(moment, resource, [device]).items()
        ],
        "in_pod": found is not None and found.away,
        "may_be_held": not moment.held_ids.isdisjoint(device.ids()),
        "checks": build_check_reports(moment, resource, device),
    }


def build_resource_report(moment: AgentSnapshot, snapshot: DeviceList, *, devices: bool = True) -> JsonObject:
    """A resource, with its devices in list order if they are wanted."""
    name = snapshot.resource
    spec = moment.find_entry(name)
    state = moment.states.get(name, ResourceState(Phase.WAITING, STARTING, moment.start_time))
    waiting = "" if state.phase is Phase.STREAMING else str(state.reason)
    expect = spec.expect if spec and name == spec.name else None
    return {
        "name": name,
        "state": "retired" if spec is None else state.phase.value,
        "waiting_for": _KUBELET if waiting and state.waits_for_kubelet else waiting or None,
        "reason": str(state.reason) or None,
        "since": moment.format_time(state.since),
        "origin": str(spec.origin) if spec else None,
        "class": (spec.class_name or None) if spec else None,
        "healthy": snapshot.count(Health.HEALTHY),
        "unhealthy": snapshot.count(Health.UNHEALTHY),
        "in_use": None if moment.holders_time is None else sum(resource == name for resource, _ in moment.holders),
        "in_use_as_of": moment.format_time(moment.holders_time),
        "expected": expect,
        "drained": build_drain_report(moment.drains.resources.get(name)),
        "streams": moment.streams[name].open_count if name in moment.streams else 0,
        "not_listed": [
            {"place": one.place, "reason": one.reason} for one in moment.lists.unlisted if one.resource == name
        ],
        "devices": [build_device_report(moment, name, device) for device in snapshot.devices] if devices else [],
    }


def find_address(moment: AgentSnapshot, resource: str, device: Device) -> str:
    """Where a device is, as people say it; where it was, if it is not there."""
    found = moment.find_candidate(resource, device)
    return found.device.name if found else device.place


def find_health_time(moment: AgentSnapshot, resource: str, device: Device) -> float:
    """Since when a device has the health it has; at the earliest since the agent started."""
    for change in reversed(moment.changes.get((resource, device.id), ())):
        if change.new is device.health and change.old is not change.new:
            return change.at
    return moment.start_time


def is_retiring(moment: AgentSnapshot, resource: str, device: Device) -> bool:
    """Whether a device is there and offered no more: it is listed only until no pod holds it."""
    if device.gone_since is not None or device.key.startswith(SLOT_KEY):
        return False
    return device.first_share > 0 or moment.find_candidate(resource, device) is None


def find_holders(moment: AgentSnapshot, resource: str, devices: Iterable[Device]) -> Mapping[Holder, Sequence[str]]:
    """The containers that hold any of these devices, and the ids that they hold of them."""
    found: dict[Holder, list[str]] = {}
    for device in devices if moment.holders else ():
        for id in device.ids():  # noqa: A001  the API's own word
            for holder in moment.holders.get((resource, id), ()):
                found.setdefault(holder, []).append(id)
    return found


def build_holder_report(holder: Holder, ids: Sequence[str]) -> JsonObject:
    """A container that holds something, for programs."""
    return {"namespace": holder.namespace, "pod": holder.pod, "container": holder.container, "ids": list(ids)}


def build_drain_report(drain: Drain | None) -> JsonObject | None:
    """What a person has taken out of scheduling, for programs."""
    return None if drain is None else {"reason": drain.reason or None, "since": format_timestamp(drain.since)}
