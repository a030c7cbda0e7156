"""Calling devices by name: which ones of the lists a person means."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from agent.core.inventory.candidate import Candidate
from agent.core.inventory.device import Device, DeviceList, HostDevice
from agent.core.language.value import OperandError, ValueType, is_equal, parse_operand
from agent.core.lists.list_builder import make_device
from agent.core.lists.resource_names import ResourceCandidates


class ResourceDevice(NamedTuple):
    """A device, and the resource that has it."""

    resource: str
    device: Device


def find_devices(name: str, lists: Iterable[DeviceList], offers: ResourceCandidates) -> list[ResourceDevice]:
    """The devices that a name means: an id of the kubelet's or the device's own, a place, or what a host device of it
    is called; else the one whose id begins so.

    One that is in no list by itself, because slots give it, is one too.
    """
    all_lists = tuple(lists)
    by_id = [
        ResourceDevice(one.resource, found[0]) for one in all_lists if (found := one.find_device(name)) is not None
    ]
    if by_id:
        return by_id
    listed = [ResourceDevice(one.resource, device) for one in all_lists for device in one.devices]
    if by_name := [one for one in listed if name in {one.device.id, *one.device.locations}]:
        return by_name
    if by_host := list(_by_host(name, listed, offers)):
        return by_host
    begun = [one for one in listed if one.device.id.startswith(name)] if name else []
    return begun if len(begun) == 1 else []


def _by_host(name: str, listed: Iterable[ResourceDevice], offers: ResourceCandidates) -> Iterator[ResourceDevice]:
    meant = [
        (resource, candidate)
        for (resource, _), found in offers.items()
        for candidate in found.values()
        if any(_is_called(host, name) for host in candidate.host_devices)
    ]
    if not meant:
        return
    by_key: Mapping[tuple[str, str], ResourceDevice] = {
        (one.resource, key): one for one in listed for key in one.device.keys
    }
    for resource, candidate in meant:
        yield by_key.get((resource, candidate.device.key)) or ResourceDevice(resource, _alone(candidate))


def _alone(candidate: Candidate) -> Device:
    return make_device(candidate, candidate.ids[0] if candidate.ids else candidate.device.name, candidate.shares)


def _is_called(host: HostDevice, name: str) -> bool:
    known = {host.name, host.name.removeprefix("/dev/"), host.location, host.node, host.directory}
    return name in known - {""} or _is_address(host, name)


def _is_address(host: HostDevice, name: str) -> bool:
    if ":" not in name or host.source != "pci":
        return False
    try:
        return is_equal(ValueType.PCI, host.name, parse_operand(ValueType.PCI, name))
    except OperandError:
        return False
