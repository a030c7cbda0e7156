"""A host device is one pod's, whatever it is listed as: who holds one, and what that keeps from others."""

from __future__ import annotations

from collections.abc import Mapping

from agent.core.inventory.device import Member, make_unhealthy
from agent.core.inventory.hardware import identify_hardware, is_device_node
from agent.core.lists.list_builder import ListBuilder
from agent.core.lists.list_inputs import ListInputs


def find_holders(drafts: Mapping[str, ListBuilder], present: ListInputs) -> dict[str, str]:
    """What pods hold of the host as something that is not offered: by what tells it from others, as which device.

    That are the host devices of devices that leave, and those that a device had and has lost. Of a device node it is
    also what is gone: its name may be all that went.
    """
    held: dict[str, str] = {}
    for name, draft in drafts.items():
        for device in draft.retiring_devices:
            if present.is_any_member_present(device):
                held.update(dict.fromkeys(device.keys, f"{name} {device.id}"))
        for device in (*draft.retiring_devices, *draft.absent_devices.values()):
            if present.held_ids.is_held(device):
                nodes = (identify_hardware(part) for part in device.host_parts if is_device_node(part))
                held.update(
                    (mark, f"{name} {device.id}") for node in nodes for mark in (*node.unique_ids, node.location)
                )
        for device in draft.list_devices() if draft.has_other_inputs else ():
            if device.missing_members and present.held_ids.is_held(device):
                held.update((member.key, f"{name} {device.id}") for member in device.missing_members)
    held.pop("", None)
    return held


def apply_host_exclusion(drafts: Mapping[str, ListBuilder], present: ListInputs) -> None:
    """Make Unhealthy what has a host device among others that a pod holds as another device."""
    held = find_holders(drafts, present)
    for name, draft in drafts.items() if held else ():
        for devices in (draft.present_devices, draft.added_devices):
            for index, device in enumerate(devices):
                own = f"{name} {device.id}"
                marks = ((mark, part) for part in device.host_parts for mark in identify_hardware(part).unique_ids)
                found = next(((mark, part) for mark, part in marks if held.get(mark, own) != own), None)
                if found is not None:
                    mark, part = found
                    named = part.name if isinstance(part, Member) else "it"
                    devices[index] = make_unhealthy(device, f"a pod holds {named} as {held[mark]}", absent_since=None)
                    draft.is_unchanged, draft.has_other_inputs = False, True
