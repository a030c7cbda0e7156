"""Exclusion: a device is Unhealthy while a pod holds one of its host devices, or its IOMMU group, as another device.

VFIO opens a group for one user at a time. A second pod would start and its program would fail. Devices that a pod holds
stay Healthy, because one grant can contain several functions of a group.

Only a confirmed ID excludes the rest of its IOMMU group: one that the agent granted, or that PodResources named. In
doubt every listed ID counts as held. Each function of a group would then be a holder that its siblings cannot exclude.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from agent.core.inventory.device import Device, Health, Member
from agent.core.inventory.hardware import identify_hardware, is_device_node
from agent.core.lists.list_builder import ListBuilder
from agent.core.lists.list_inputs import ListInputs


def find_holders(builders: Mapping[str, ListBuilder], inputs: ListInputs) -> dict[str, str]:
    """Return the devices that pods hold and no entry offers, by the values that identify their host devices.

    These are the host devices of retiring devices, and missing members. For device nodes they include absent devices:
    only the name of the node may have disappeared.
    """
    holders: dict[str, str] = {}
    for name, builder in builders.items():
        for device in builder.retiring_devices:
            if inputs.is_any_member_present(device):
                holders.update(dict.fromkeys(device.keys, f"{name} {device.id}"))
        for device in (*builder.retiring_devices, *builder.absent_devices.values()):
            if inputs.held_ids.is_held(device):
                nodes = (identify_hardware(part) for part in device.host_parts if is_device_node(part))
                holders.update(
                    (mark, f"{name} {device.id}") for node in nodes for mark in (*node.unique_ids, node.location)
                )
        for device in builder.list_devices() if builder.has_other_inputs else ():
            if device.missing_members and inputs.held_ids.is_held(device):
                holders.update((member.key, f"{name} {device.id}") for member in device.missing_members)
    holders.pop("", None)
    return holders


def apply_host_exclusion(builders: Mapping[str, ListBuilder], inputs: ListInputs) -> None:
    """Make devices Unhealthy if a pod holds one of their host devices as another device."""
    holders = find_holders(builders, inputs)

    def find_reason(device: Device, name: str) -> str:
        device_name = f"{name} {device.id}"
        for part in device.host_parts:
            for unique_id in identify_hardware(part).unique_ids:
                if holders.get(unique_id, device_name) != device_name:
                    return f"a pod holds {part.name if isinstance(part, Member) else 'it'} as {holders[unique_id]}"
        return ""

    for name, builder in builders.items() if holders else ():
        builder.exclude_devices(partial(find_reason, name=name))


def format_iommu_reason(holder: str) -> str:
    """Return why no other pod can get a device whose IOMMU group a pod holds."""
    return f"a pod holds its IOMMU group, as {holder}"


def apply_iommu_exclusion(builders: Mapping[str, ListBuilder], inputs: ListInputs) -> frozenset[str]:
    """Make devices Unhealthy whose IOMMU group contains a confirmed ID of any resource.

    Return the keys of all host devices that a listed device excludes, held or not.
    """
    confirmed_ids = inputs.confirmed_ids
    exclusive_keys = frozenset(
        key for builder in builders.values() for device in builder.exclusive_devices for key in device.exclusive_keys
    )
    if not exclusive_keys:
        return exclusive_keys
    device_holders: dict[str, str] = {}
    group_holders: dict[str, str] = {}
    for name, builder in builders.items():
        for device in builder.list_devices():
            if (device.exclusive_keys or not exclusive_keys.isdisjoint(device.keys)) and confirmed_ids.is_held(device):
                for key_holders, keys in ((device_holders, device.keys), (group_holders, device.exclusive_keys)):
                    for key in keys:
                        key_holders.setdefault(key, f"{name} {device.id}")

    def find_reason(device: Device) -> str:
        conflicts = [group_holders[key] for key in device.keys if key in group_holders]
        conflicts += [device_holders[key] for key in device.exclusive_keys if key in device_holders]
        is_excluded = conflicts and device.health is Health.HEALTHY and not confirmed_ids.is_held(device)
        return format_iommu_reason(conflicts[0]) if is_excluded else ""

    for builder in builders.values() if device_holders else ():
        builder.exclude_devices(find_reason)
    return exclusive_keys
