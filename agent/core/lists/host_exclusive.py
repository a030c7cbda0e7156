"""A host device is one pod's, whatever it is listed as: who holds one, and what that keeps from others."""

from __future__ import annotations

from collections.abc import Mapping

from agent.core.inventory.device import Member, unhealthy
from agent.core.inventory.hardware import hardware, is_node
from agent.core.lists.list_builder import ListBuilder
from agent.core.lists.list_inputs import ListInputs


def holders(drafts: Mapping[str, ListBuilder], present: ListInputs) -> dict[str, str]:
    """What pods hold of the host as something that is not offered: by what tells it from others, as which device.

    That are the host devices of devices that leave, and those that a device had and has lost. Of a device node it is
    also what is gone: its name may be all that went.
    """
    held: dict[str, str] = {}
    for name, draft in drafts.items():
        for device in draft.leaving:
            if present.has_some(device):
                held.update(dict.fromkeys(device.keys, f"{name} {device.id}"))
        for device in (*draft.leaving, *draft.gone.values()):
            if present.held.holds(device):
                nodes = (hardware(part) for part in device.parts if is_node(part))
                held.update((mark, f"{name} {device.id}") for node in nodes for mark in (*node.marks, node.seat))
        for device in draft.devices() if draft.unsettled else ():
            if device.missing_members and present.held.holds(device):
                held.update((member.key, f"{name} {device.id}") for member in device.missing_members)
    held.pop("", None)
    return held


def apply_host_exclusion(drafts: Mapping[str, ListBuilder], present: ListInputs) -> None:
    """Make Unhealthy what has a host device among others that a pod holds as another device."""
    held = holders(drafts, present)
    for name, draft in drafts.items() if held else ():
        for devices in (draft.settled, draft.added):
            for index, device in enumerate(devices):
                own = f"{name} {device.id}"
                marks = ((mark, part) for part in device.parts for mark in hardware(part).marks)
                found = next(((mark, part) for mark, part in marks if held.get(mark, own) != own), None)
                if found is not None:
                    mark, part = found
                    named = part.name if isinstance(part, Member) else "it"
                    devices[index] = unhealthy(device, f"a pod holds {named} as {held[mark]}", gone_since=None)
                    draft.unchanged, draft.unsettled = False, True
