"""What a listed device of several host devices has lost of them, and whether what is there is still that device."""

from __future__ import annotations

from collections.abc import Container

from agent.core.entry.group import Grouping
from agent.core.inventory.candidate import Candidate
from agent.core.inventory.device import Device, DeviceList, Member
from agent.core.inventory.inventory import Inventory
from agent.core.language.value import make_sort_key
from agent.core.struct import replace


def find_missing_members(
    device: Device, candidate: Candidate, inventory: Inventory, *, is_held: bool
) -> tuple[Member, ...]:
    """The host devices that it had and has no more, in order.

    As long as a pod may hold it, all of them: the pod has them. Then what the entry, as it is now, would not have
    missed is forgotten: it was changed, or the host has that host device in another group.
    """
    old_members = (*device.members, *device.missing_members)
    if not old_members:
        return ()
    locations = set(candidate.locations)
    member_names = {member.member_name for member in candidate.members if member.member_name}
    missing_members = (
        member for member in old_members if member.location not in locations and member.member_name not in member_names
    )
    sorted_members = tuple(sorted(missing_members, key=lambda member: make_sort_key(member.location)))
    if not sorted_members or is_held:
        return sorted_members
    grouping = candidate.grouping
    if grouping is None or device.grouping_digest != candidate.grouping_digest:
        return ()
    return tuple(member for member in sorted_members if not _is_in_other_group(member, grouping, inventory))


def forget_missing_members(list_: DeviceList, device: Device, held_ids: Container[str]) -> DeviceList | None:
    """The list in which a device has lost nothing, as a person says who took something out for good.

    None where that changes nothing: it has lost nothing, or a pod may hold it and has all of it.
    """
    share = list_.find_device(next(iter(device.list_ids()), ""))
    listed_device = share[0] if share else None
    if (
        listed_device is None
        or not listed_device.missing_members
        or any(device_id in held_ids for device_id in listed_device.list_ids())
    ):
        return None
    devices = (replace(other, missing_members=()) if other is listed_device else other for other in list_.devices)
    return DeviceList(list_.resource, tuple(devices))


def format_missing_members(members: tuple[Member, ...]) -> str:
    """That these are lost, in words."""
    names = (f"{member.member_name} ({member.name})" if member.member_name else member.name for member in members)
    return f"lost {', '.join(names)}" if members else ""


def _is_in_other_group(member: Member, grouping: Grouping, inventory: Inventory) -> bool:
    """Whether the host has it in another group of the same sentence."""
    if member.key not in inventory.match_results:
        return False
    candidate = inventory.get_candidate(member.key)
    return grouping.includes_unmatched or (
        candidate is not None and candidate.grouping is not None and candidate.grouping.digest == grouping.digest
    )
