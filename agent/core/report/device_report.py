"""One device of a list, and one resource with all its devices, for programs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from agent.core.grants.held_ids import Holder
from agent.core.health.drain_overlay import Drain
from agent.core.inventory.device import Device, DeviceList, Health
from agent.core.lists.list_builder import SLOT_KEY_PREFIX
from agent.core.registration_phase import Phase
from agent.core.report.agent_snapshot import STARTING, AgentSnapshot, ResourceState, format_timestamp
from agent.core.report.check_report import build_check_reports

JsonObject: TypeAlias = Mapping[str, object]

_KUBELET = "kubelet"


def build_device_report(snapshot: AgentSnapshot, resource: str, device: Device) -> JsonObject:
    """Return the report of a device. The shares of a device are one report."""
    candidate = snapshot.find_candidate(resource, device)
    return {
        "resource": resource,
        "id": device.id,
        "address": find_address(snapshot, resource, device),
        "place": device.location,
        "health": device.health.value,
        "reason": str(device.reason) or None,
        "since": snapshot.format_time(find_health_time(snapshot, resource, device)),
        "drained": build_drain_report(snapshot.drains.find_drain(resource, device.locations)),
        "leaving": is_retiring(snapshot, resource, device),
        "numa": list(device.numa),
        "shares": None if device.shares is None else len(device),
        "told_kubelet": snapshot.streams[resource].has_newest_list if resource in snapshot.streams else False,
        "held_by": [
            build_holder_report(holder, ids) for holder, ids in find_holders(snapshot, resource, [device]).items()
        ],
        "in_pod": candidate is not None and candidate.is_in_pod,
        "may_be_held": not snapshot.held_ids.isdisjoint(device.list_ids()),
        "checks": build_check_reports(snapshot, resource, device),
    }


def build_resource_report(snapshot: AgentSnapshot, device_list: DeviceList, *, devices: bool = True) -> JsonObject:
    """Return the report of a resource. With `devices`, the report contains the devices in list order."""
    name = device_list.resource
    spec = snapshot.find_entry(name)
    state = snapshot.states.get(name, ResourceState(Phase.WAITING, STARTING, snapshot.start_time))
    waiting_reason = "" if state.phase is Phase.STREAMING else str(state.reason)
    expect = spec.expect if spec and name == spec.name else None
    return {
        "name": name,
        "state": "retired" if spec is None else state.phase.value,
        "waiting_for": _KUBELET if waiting_reason and state.waits_for_kubelet else waiting_reason or None,
        "reason": str(state.reason) or None,
        "since": snapshot.format_time(state.since),
        "origin": str(spec.origin) if spec else None,
        "class": (spec.class_name or None) if spec else None,
        "healthy": device_list.count_ids(Health.HEALTHY),
        "unhealthy": device_list.count_ids(Health.UNHEALTHY),
        "in_use": None if snapshot.holders_time is None else sum(resource == name for resource, _ in snapshot.holders),
        "in_use_as_of": snapshot.format_time(snapshot.holders_time),
        "expected": expect,
        "drained": build_drain_report(snapshot.drains.resources.get(name)),
        "streams": snapshot.streams[name].open_count if name in snapshot.streams else 0,
        "not_listed": [
            {"place": unlisted.location, "reason": unlisted.reason}
            for unlisted in snapshot.lists.unlisted
            if unlisted.resource == name
        ],
        "devices": [build_device_report(snapshot, name, device) for device in device_list.devices] if devices else [],
    }


def find_address(snapshot: AgentSnapshot, resource: str, device: Device) -> str:
    """Return the name of the host device for people, or the last location of an absent device."""
    candidate = snapshot.find_candidate(resource, device)
    return candidate.device.name if candidate else device.location


def find_health_time(snapshot: AgentSnapshot, resource: str, device: Device) -> float:
    """Return the time of the last change of health, in monotonic seconds. The earliest time is the start of the
    agent.
    """
    for change in reversed(snapshot.changes.get((resource, device.id), ())):
        if change.new_health is device.health and change.old_health is not change.new_health:
            return change.time
    return snapshot.start_time


def is_retiring(snapshot: AgentSnapshot, resource: str, device: Device) -> bool:
    """Return whether no entry offers a device that is present. Such a device stays in the list while a pod uses it."""
    if device.absent_since is not None or device.key.startswith(SLOT_KEY_PREFIX):
        return False
    return device.first_share > 0 or snapshot.find_candidate(resource, device) is None


def find_holders(snapshot: AgentSnapshot, resource: str, devices: Iterable[Device]) -> Mapping[Holder, Sequence[str]]:
    """Return the containers that use one of the devices, each with the IDs that it uses."""
    ids_by_holder: dict[Holder, list[str]] = {}
    for device in devices if snapshot.holders else ():
        for id in device.list_ids():  # noqa: A001  the API's own word
            for holder in snapshot.holders.get((resource, id), ()):
                ids_by_holder.setdefault(holder, []).append(id)
    return ids_by_holder


def build_holder_report(holder: Holder, ids: Sequence[str]) -> JsonObject:
    """Return a container that uses a device."""
    return {"namespace": holder.namespace, "pod": holder.pod, "container": holder.container, "ids": list(ids)}


def build_drain_report(drain: Drain | None) -> JsonObject | None:
    """Return a drain, or None if there is no drain."""
    return None if drain is None else {"reason": drain.reason or None, "since": format_timestamp(drain.since)}
