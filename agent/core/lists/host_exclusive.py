"""A host device is one pod's, whatever it is listed as: who holds one, and what that keeps from others."""

from __future__ import annotations

from collections.abc import Mapping

from agent.core.inventory.device import Member, make_unhealthy
from agent.core.inventory.hardware import identify_hardware, is_device_node
from agent.core.lists.list_builder import ListBuilder
from agent.core.lists.list_inputs import ListInputs


def find_holders(builders: Mapping[str, ListBuilder], inputs: ListInputs) -> dict[str, str]:
    """What pods hold of the host as something that is not offered: by what tells it from others, as which device.

    That are the host devices of devices that leave, and those that a device had and has lost. Of a device node it is
    also what is gone: its name may be all that went.
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
    """Make Unhealthy what has a host device among others that a pod holds as another device."""
    holders = find_holders(builders, inputs)
    for name, builder in builders.items() if holders else ():
        for devices in (builder.present_devices, builder.added_devices):
            for index, device in enumerate(devices):
                device_name = f"{name} {device.id}"
                unique_ids = (
                    (unique_id, part) for part in device.host_parts for unique_id in identify_hardware(part).unique_ids
                )
                conflict = next(
                    (
                        (unique_id, part)
                        for unique_id, part in unique_ids
                        if holders.get(unique_id, device_name) != device_name
                    ),
                    None,
                )
                if conflict is not None:
                    unique_id, part = conflict
                    part_name = part.name if isinstance(part, Member) else "it"
                    devices[index] = make_unhealthy(
                        device, f"a pod holds {part_name} as {holders[unique_id]}", absent_since=None
                    )
                    builder.is_unchanged, builder.has_other_inputs = False, True
