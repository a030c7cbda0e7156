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


def apply_iommu_exclusion(drafts: Mapping[str, ListBuilder], present: ListInputs) -> frozenset[str]:
    """Make Unhealthy what is of one group with a confirmed ID, in whichever resource either is.

    Return the keys of all host devices that a listed device shuts, held or not.
    """
    confirmed = present.confirmed_ids
    tied = frozenset(
        key for draft in drafts.values() for device in draft.exclusive_devices for key in device.exclusive_keys
    )
    if not tied:
        return tied
    has: dict[str, str] = {}
    shut: dict[str, str] = {}
    for name, draft in drafts.items():
        for device in draft.list_devices():
            if (device.exclusive_keys or not tied.isdisjoint(device.keys)) and confirmed.is_held(device):
                for known, keys in ((has, device.keys), (shut, device.exclusive_keys)):
                    for key in keys:
                        known.setdefault(key, f"{name} {device.id}")
    for draft in drafts.values() if has else ():
        for devices in (draft.present_devices, draft.added_devices):
            for index, device in enumerate(devices):
                holders = [shut[key] for key in device.keys if key in shut]
                holders += [has[key] for key in device.exclusive_keys if key in has]
                if holders and device.health is Health.HEALTHY and not confirmed.is_held(device):
                    devices[index] = make_unhealthy(device, format_iommu_reason(holders[0]), absent_since=None)
                    draft.is_unchanged, draft.has_other_inputs = False, True
    return tied
