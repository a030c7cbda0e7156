"""IOMMU exclusion: while a pod holds a function of an IOMMU group, all other functions of the group are Unhealthy.

VFIO opens a group for one user at a time. A second pod would start and its program would fail. Devices that a pod holds
stay Healthy, because one grant can contain several functions of a group.

Only a confirmed ID excludes others: one that the agent granted, or that PodResources named. In doubt every listed ID
counts as held. Each function of a group would then be a holder that its siblings cannot exclude.
"""

from __future__ import annotations

from collections.abc import Mapping

from agent.core.inventory.device import Health, make_unhealthy
from agent.core.lists.list_builder import ListBuilder
from agent.core.lists.list_inputs import ListInputs


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
    for builder in builders.values() if device_holders else ():
        for devices in (builder.present_devices, builder.added_devices):
            for index, device in enumerate(devices):
                conflicts = [group_holders[key] for key in device.keys if key in group_holders]
                conflicts += [device_holders[key] for key in device.exclusive_keys if key in device_holders]
                if conflicts and device.health is Health.HEALTHY and not confirmed_ids.is_held(device):
                    devices[index] = make_unhealthy(device, format_iommu_reason(conflicts[0]), absent_since=None)
                    builder.is_unchanged, builder.has_other_inputs = False, True
    return exclusive_keys
