"""Missing members: the host devices that a listed group had and has no longer."""

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
    """Return the members that a device had and has no longer, in order.

    While a pod may use the device, these are all missing members, because the pod has them. Otherwise a member is
    forgotten if the current entry would not miss it: the entry was changed, or the host has the member in another
    group.
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
    """Return the list in which a device has no missing members, for an administrator who removed them for good.

    Return None if nothing changes: no member is missing, or a pod may use the device with all its members.
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
    """Return a text about the missing members, or an empty string."""
    names = (f"{member.member_name} ({member.name})" if member.member_name else member.name for member in members)
    return f"lost {', '.join(names)}" if members else ""


def _is_in_other_group(member: Member, grouping: Grouping, inventory: Inventory) -> bool:
    """Return whether the host has the member in another group of the same `group` table."""
    if member.key not in inventory.match_results:
        return False
    candidate = inventory.get_candidate(member.key)
    return grouping.includes_unmatched or (
        candidate is not None and candidate.grouping is not None and candidate.grouping.digest == grouping.digest
    )
