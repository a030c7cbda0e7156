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
    former = (*device.members, *device.missing_members)
    if not former:
        return ()
    there = set(candidate.locations)
    parts = {member.member_name for member in candidate.members if member.member_name}
    missing = (member for member in former if member.location not in there and member.member_name not in parts)
    gone = tuple(sorted(missing, key=lambda member: make_sort_key(member.location)))
    if not gone or is_held:
        return gone
    grouping = candidate.grouping
    if grouping is None or device.grouping_digest != candidate.grouping_digest:
        return ()
    return tuple(member for member in gone if not _elsewhere(member, grouping, inventory))


def forget_missing_members(list_: DeviceList, device: Device, held_ids: Container[str]) -> DeviceList | None:
    """The list in which a device has lost nothing, as a person says who took something out for good.

    None where that changes nothing: it has lost nothing, or a pod may hold it and has all of it.
    """
    found = list_.find_device(next(iter(device.list_ids()), ""))
    known = found[0] if found else None
    if known is None or not known.missing_members or any(each in held_ids for each in known.list_ids()):
        return None
    devices = (replace(each, missing_members=()) if each is known else each for each in list_.devices)
    return DeviceList(list_.resource, tuple(devices))


def format_missing_members(members: tuple[Member, ...]) -> str:
    """That these are lost, in words."""
    names = (f"{member.member_name} ({member.name})" if member.member_name else member.name for member in members)
    return f"lost {', '.join(names)}" if members else ""


def _elsewhere(member: Member, grouping: Grouping, look: Inventory) -> bool:
    """Whether the host has it in another group of the same sentence."""
    if member.key not in look.match_results:
        return False
    other = look.get_candidate(member.key)
    return grouping.includes_unmatched or (
        other is not None and other.grouping is not None and other.grouping.digest == grouping.digest
    )
