"""What grants keep from others before the lists say so: a grant is known before any list is made of it."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from agent.core.inventory.device import Device


class _Grant(NamedTuple):
    """A device that was granted to a container, and all the ids of its resource that this got with it."""

    device: Device
    ids: frozenset[str]

    def excludes(self, other: Device) -> bool:
        """Whether no other pod can have that device meanwhile."""
        mine, its = self.device, other
        return not (set(mine.shuts).isdisjoint(its.keys) and set(mine.keys).isdisjoint(its.shuts))


class Reserved:
    """The grants of devices that shut others (`Device.shuts`), by resource and id of the device."""

    def __init__(self) -> None:
        self._grants: dict[str, _Grant] = {}

    def holder(self, devices: Iterable[Device], ids: Collection[str], held: frozenset[str]) -> str:
        """Who has what one of these devices cannot be had beside; empty if nobody has.

        Args:
            devices: what is asked for.
            ids: all ids that are asked: what is asked together can be had together.
            held: the ids that pods may hold. A device that is among these was granted before, to the same pod.
        """
        self._grants = {name: grant for name, grant in self._grants.items() if not grant.ids.isdisjoint(held)}
        for device in devices:
            for name, grant in self._grants.items():
                if grant.excludes(device) and grant.ids.isdisjoint(ids) and held.isdisjoint(device.ids()):
                    return name
        return ""

    def grant(self, resource: str, devices: Iterable[Device], ids: Iterable[str]) -> None:
        """Remember a grant."""
        granted = frozenset(ids)
        self._grants |= {f"{resource} {device.id}": _Grant(device, granted) for device in devices if device.shuts}
