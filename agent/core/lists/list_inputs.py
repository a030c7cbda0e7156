"""The inputs of lists: the inventory, the held IDs, and the time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

from agent.core.inventory.device import Device, ShareBase, split_share
from agent.core.inventory.inventory import Inventory
from agent.core.struct import Struct, replace

FORGET_SECONDS = 600.0  # how long an absent device that no pod holds stays listed


class HeldIds:
    """The IDs that pods may use, by device."""

    def __init__(self, ids: frozenset[str]) -> None:
        self.ids = ids

    @cached_property
    def _held_shares(self) -> Mapping[ShareBase, Sequence[int]]:
        """The held share numbers, by share base. It is built on demand, because most nodes have no shares."""
        shares: dict[ShareBase, list[int]] = {}
        for id in self.ids:  # noqa: A001  the API's own word
            share_base, share = split_share(id)
            if share is not None:
                shares.setdefault(share_base, []).append(share)
        return shares

    def is_held(self, device: Device) -> bool:
        """Return whether a pod may use the device, or any share of its ID, those included that are not offered now."""
        return device.id in self.ids if device.shares is None else device.share_base in self._held_shares

    def find_held_part(self, device: Device) -> Device | None:
        """Return the device with its shares up to the highest held one, or None if no share is held."""
        if device.shares is None:
            return device if device.id in self.ids else None
        shares = (
            share
            for share in self._held_shares.get(device.share_base, ())
            if device.first_share <= share < device.shares
        )
        highest = max(shares, default=None)
        if highest is None:
            return None
        return device if highest + 1 == device.shares else replace(device, shares=highest + 1)


class ListInputs(Struct):
    """The inputs of the lists: inventory, held IDs, and the time in monotonic seconds.

    held_ids: in doubt all listed IDs. Devices with these IDs stay in their list.
    confirmed_ids: the held IDs that were granted or named by PodResources. These exclude others.
    """

    inventory: Inventory
    held_ids: HeldIds
    current_time: float
    confirmed_ids: HeldIds

    def is_present(self, device: Device) -> bool:
        """Return whether the same host device that was listed is still on the host, with any entry.

        For a group the device of the fields counts, not its other members.
        """
        return self._is_present(device.key, device.location, device.instance_id)

    def is_any_member_present(self, device: Device) -> bool:
        """Return whether any host device of the listed device is still on the host."""
        if not device.members:
            return self.is_present(device)
        return any(self._is_present(member.key, member.location, member.instance_id) for member in device.members)

    def _is_present(self, key: str, location: str, instance_id: str) -> bool:
        match_result = self.inventory.match_results.get(key)
        if match_result is None:
            return False
        instance_ids = [host.instance_id for host in match_result.devices if host.location == location]
        # Under another name, or from another source, the instance ids cannot be compared.
        return not instance_ids or instance_id in instance_ids

    def must_forget(self, device: Device) -> bool:
        """Return whether a device has been absent for so long that it leaves its list."""
        return (
            device.absent_since is not None
            and self.current_time >= device.absent_since + FORGET_SECONDS
            and not self.held_ids.is_held(device)
        )
