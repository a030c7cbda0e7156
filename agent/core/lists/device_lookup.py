"""Find devices of the lists by the names that administrators use."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from agent.core.inventory.candidate import Candidate
from agent.core.inventory.device import Device, DeviceList, HostDevice
from agent.core.language.value import OperandError, ValueType, is_equal, parse_operand
from agent.core.lists.list_builder import make_device
from agent.core.lists.resource_names import ResourceCandidates


class ResourceDevice(NamedTuple):
    """A device and its resource."""

    resource: str
    device: Device


def find_devices(name: str, lists: Iterable[DeviceList], candidates: ResourceCandidates) -> list[ResourceDevice]:
    """Return the devices that a name means.

    A name is a kubelet ID, a device ID, a location, or a name of a host device. If nothing has the name, the only
    device whose ID begins with it counts. A device that only a slot gives is found too.
    """
    all_lists = tuple(lists)
    by_id = [
        ResourceDevice(device_list.resource, share[0])
        for device_list in all_lists
        if (share := device_list.find_device(name)) is not None
    ]
    if by_id:
        return by_id
    listed = [
        ResourceDevice(device_list.resource, device) for device_list in all_lists for device in device_list.devices
    ]
    if by_name := [
        resource_device
        for resource_device in listed
        if name in {resource_device.device.id, *resource_device.device.locations}
    ]:
        return by_name
    if by_host := list(_find_by_host_device(name, listed, candidates)):
        return by_host
    matches = (
        [resource_device for resource_device in listed if resource_device.device.id.startswith(name)] if name else []
    )
    return matches if len(matches) == 1 else []


def _find_by_host_device(
    name: str, listed: Iterable[ResourceDevice], resource_candidates: ResourceCandidates
) -> Iterator[ResourceDevice]:
    named_candidates = [
        (resource, candidate)
        for (resource, _), candidates in resource_candidates.items()
        for candidate in candidates.values()
        if any(_has_name(host, name) for host in candidate.host_devices)
    ]
    if not named_candidates:
        return
    by_key: Mapping[tuple[str, str], ResourceDevice] = {
        (resource_device.resource, key): resource_device
        for resource_device in listed
        for key in resource_device.device.keys
    }
    for resource, candidate in named_candidates:
        yield by_key.get((resource, candidate.device.key)) or ResourceDevice(resource, _make_unlisted_device(candidate))


def _make_unlisted_device(candidate: Candidate) -> Device:
    return make_device(candidate, candidate.ids[0] if candidate.ids else candidate.device.name, candidate.shares)


def _has_name(host: HostDevice, name: str) -> bool:
    names = {host.name, host.name.removeprefix("/dev/"), host.location, host.node, host.directory}
    return name in names - {""} or _is_address(host, name)


def _is_address(host: HostDevice, name: str) -> bool:
    if ":" not in name or host.source != "pci":
        return False
    try:
        return is_equal(ValueType.PCI, host.name, parse_operand(ValueType.PCI, name))
    except OperandError:
        return False
