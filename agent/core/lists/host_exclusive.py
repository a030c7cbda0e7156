"""A host device is one pod's, whatever it is listed as: who holds one, and what that keeps from others."""

from __future__ import annotations

from collections.abc import Mapping

from agent.core.inventory.device import unhealthy
from agent.core.lists.list_builder import ListBuilder
from agent.core.lists.list_inputs import ListInputs


def holders(drafts: Mapping[str, ListBuilder], present: ListInputs) -> dict[str, str]:
    """What pods hold of the host as something that is offered no more: by key, as which device.

    That are the host devices of devices that leave, and those that a device had and has lost.
    """
    held: dict[str, str] = {}
    for name, draft in drafts.items():
        for device in draft.leaving:
            if present.has_some(device):
                held.update(dict.fromkeys(device.keys, f"{name} {device.id}"))
        for device in draft.devices() if draft.unsettled else ():
            if device.missing_members and present.held.holds(device):
                held.update((member.key, f"{name} {device.id}") for member in device.missing_members)
    return held


def apply_host_exclusion(drafts: Mapping[str, ListBuilder], present: ListInputs) -> None:
    """Make Unhealthy what has a host device among others that a pod holds as another device."""
    held = holders(drafts, present)
    for name, draft in drafts.items() if held else ():
        for devices in (draft.settled, draft.added):
            for index, device in enumerate(devices):
                own = f"{name} {device.id}"
                keys = (key for key in device.keys if held.get(key, own) != own)
                key = next(keys, None)
                if key is not None:
                    named = next((member.name for member in device.members if member.key == key), "it")
                    devices[index] = unhealthy(device, f"a pod holds {named} as {held[key]}", gone_since=None)
                    draft.unchanged, draft.unsettled = False, True
