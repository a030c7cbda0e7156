"""One IOMMU group is one pod's: while a pod holds a function of it, whatever else is of it is Unhealthy.

VFIO opens a group for one user at a time, so a second pod would start and its program fail. What a pod holds stays as
it is: several functions of a group can be granted together.

Only a confirmed ID excludes others: one that the agent granted, or that PodResources named. In doubt every listed ID
counts as held, and then each function of a group would be a holder that its siblings cannot exclude.
"""

from __future__ import annotations

from collections.abc import Mapping

from agent.core.inventory.device import Health, make_unhealthy
from agent.core.lists.list_builder import ListBuilder
from agent.core.lists.list_inputs import ListInputs


def format_iommu_reason(holder: str) -> str:
    """Why no other pod can have a device of whose group a pod holds a function."""
    return f"a pod holds its IOMMU group, as {holder}"


def apply_iommu_exclusion(builders: Mapping[str, ListBuilder], inputs: ListInputs) -> frozenset[str]:
    """Make Unhealthy what is of one group with a confirmed ID, in whichever resource either is.

    Return the keys of all host devices that a listed device shuts, held or not.
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
