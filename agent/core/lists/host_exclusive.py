"""Host exclusion: one pod uses a host device, even if several resources list it."""

from __future__ import annotations

from collections.abc import Mapping

from agent.core.inventory.device import Member, make_unhealthy
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
