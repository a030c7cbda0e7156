"""What grants keep from others before the lists say so: a grant is known before any list is made of it."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable
from typing import NamedTuple

from agent.core.inventory.device import Device


class _Grant(NamedTuple):
    """A device that was granted to a container, and all the ids of its resource that this got with it."""

    device: Device
    ids: frozenset[str]

    def excludes(self, other: Device) -> bool:
        """Whether no other pod can have that device meanwhile."""
        mine, its = self.device, other
        return not (set(mine.exclusive_keys).isdisjoint(its.keys) and set(mine.keys).isdisjoint(its.exclusive_keys))


class ExclusiveGrants:
    """The grants of devices that shut others (`Device.shuts`), by resource and id of the device.

    They are found by what they and a device that is asked for have in common: a request costs what it touches.
    """

    def __init__(self) -> None:
        self._grants: dict[str, _Grant] = {}
        self._by_key: dict[str, dict[str, None]] = {}  # the names of grants, by all keys that they are known by

    def find_holder(self, devices: Iterable[Device], ids: Collection[str], held: Container[str]) -> str:
        """Who has what one of these devices cannot be had beside; empty if nobody has.

        Args:
            devices: what is asked for.
            ids: all ids that are asked: what is asked together can be had together.
            held: the ids that pods may hold. A device that is among these was granted before, to the same pod.
        """
        for device in devices:
            for name in self._near(device):
                grant = self._grants[name]
                if not _any_in(grant.ids, held):
                    self._forget(name)
                elif grant.excludes(device) and grant.ids.isdisjoint(ids) and not _any_in(device.list_ids(), held):
                    return name
        return ""

    def add_grant(self, resource: str, devices: Iterable[Device], ids: Iterable[str]) -> None:
        """Remember a grant."""
        granted = frozenset(ids)
        for device in devices:
            if device.exclusive_keys:
                name = f"{resource} {device.id}"
                self._forget(name)
                self._grants[name] = _Grant(device, granted)
                for key in _keys(device):
                    self._by_key.setdefault(key, {})[name] = None

    def _near(self, device: Device) -> dict[str, None]:
        """The names of the grants that have a key in common with a device."""
        if not self._grants:
            return {}
        return {name: None for key in _keys(device) for name in self._by_key.get(key, ())}

    def _forget(self, name: str) -> None:
        grant = self._grants.pop(name, None)
        for key in _keys(grant.device) if grant else ():
            names = self._by_key[key]
            del names[name]
            if not names:
                del self._by_key[key]


def find_listed_holder(
    device: Device, ids: Collection[str], listed: Iterable[tuple[str, Device]], held: Container[str]
) -> str:
    """Return the listed device that pods may hold and that this one cannot be had beside; empty if there is none.

    Args:
        device: the device that is asked for.
        ids: all ids that are asked: what is asked together can be had together.
        listed: devices, each with its resource.
        held: the ids that pods may hold.
    """
    if _any_in(device.list_ids(), held):
        return ""
    for name, other in listed:
        grant = _Grant(other, frozenset(other.list_ids()))
        if grant.excludes(device) and _any_in(grant.ids, held) and grant.ids.isdisjoint(ids):
            return f"{name} {other.id}"
    return ""


def _keys(device: Device) -> frozenset[str]:
    """What a device is known by, and what it shuts."""
    return frozenset((*device.keys, *device.exclusive_keys))


def _any_in(ids: Iterable[str], held: Container[str]) -> bool:
    return any(each in held for each in ids)
