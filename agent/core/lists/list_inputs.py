"""The present, of which lists are made: the machine as it is, what pods may hold, and the time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

from agent.core.inventory.device import Device, ShareBase, split_share
from agent.core.inventory.inventory import Inventory
from agent.core.struct import Struct, replace

FORGET_SECONDS = 600.0  # how long an absent device that no pod holds stays listed


class HeldIds:
    """Which ids pods may hold, asked by device."""

    def __init__(self, ids: frozenset[str]) -> None:
        self.ids = ids

    @cached_property
    def _shares(self) -> Mapping[ShareBase, Sequence[int]]:
        """The shares among them. Most nodes divide nothing, and never ask."""
        shares: dict[ShareBase, list[int]] = {}
        for id in self.ids:  # noqa: A001  the API's own word
            form, share = split_share(id)
            if share is not None:
                shares.setdefault(form, []).append(share)
        return shares

    def holds(self, device: Device) -> bool:
        """Whether a pod may hold the device, or any share of its id, those that it does not offer now included."""
        return device.id in self.ids if device.shares is None else device.form in self._shares

    def part(self, device: Device) -> Device | None:
        """The device with its shares up to the highest that is held; none if none of them is."""
        if device.shares is None:
            return device if device.id in self.ids else None
        shares = (share for share in self._shares.get(device.form, ()) if device.first_share <= share < device.shares)
        highest = max(shares, default=None)
        if highest is None:
            return None
        return device if highest + 1 == device.shares else replace(device, shares=highest + 1)


class ListInputs(Struct):
    """What drafts are made of: the machine as it is, what pods may hold, and the time in monotonic seconds.

    held: in doubt all that is listed. A list keeps these.
    confirmed_ids: those of them that were granted or named by PodResources. These exclude others.
    """

    look: Inventory
    held: HeldIds
    now: float
    confirmed_ids: HeldIds

    def has(self, device: Device) -> bool:
        """Whether the very thing that was listed is still on the host, whoever takes it now.

        Of several host devices that is the one whose words stand for them.
        """
        return self._has(device.key, device.place, device.stamp)

    def has_some(self, device: Device) -> bool:
        """Whether any of the host devices that were listed as this is still on the host."""
        if not device.members:
            return self.has(device)
        return any(self._has(member.key, member.place, member.stamp) for member in device.members)

    def _has(self, key: str, place: str, stamp: str) -> bool:
        sighting = self.look.sightings.get(key)
        if sighting is None:
            return False
        here = [host.stamp for host in sighting.devices if host.place == place]
        return not here or stamp in here  # by another name, or of another source, its stamp cannot be compared

    def forgets(self, device: Device) -> bool:
        """Whether a device has been gone for so long that it leaves its list."""
        return (
            device.gone_since is not None
            and self.now >= device.gone_since + FORGET_SECONDS
            and not self.held.holds(device)
        )
