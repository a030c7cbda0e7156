"""Exclusive grants: a grant excludes other devices at once, before the next device list does."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable

from agent.core.inventory.device import Device


class ExclusiveGrants:
    """The grants of devices with exclusive keys, by resource and device ID.

    An index by key finds them: the cost of a request depends only on its own keys.
    """

    def __init__(self) -> None:
        self._grants: dict[str, tuple[Device, frozenset[str]]] = {}  # with all IDs of the request
        self._names_by_key: dict[str, dict[str, None]] = {}  # the names of the grants that have a key

    def find_holder(self, devices: Iterable[Device], ids: Collection[str], held_ids: Container[str]) -> str:
        """Return the grant that excludes one of these devices, or an empty string.

        Args:
            devices: the requested devices.
            ids: all requested IDs. Devices of one request do not exclude each other.
            held_ids: the IDs that pods may hold. A requested device among them was granted before, to the same pod.
        """
        for device in devices if self._grants else ():
            names = {name: None for key in _list_all_keys(device) for name in self._names_by_key.get(key, ())}
            for name in names:
                granted_device, granted_ids = self._grants[name]
                if not _has_any(granted_ids, held_ids):
                    self._remove_grant(name)
                elif (
                    _exclude_each_other(granted_device, device)
                    and granted_ids.isdisjoint(ids)
                    and not _has_any(device.list_ids(), held_ids)
                ):
                    return name
        return ""

    def add_grant(self, resource: str, devices: Iterable[Device], ids: Iterable[str]) -> None:
        """Add a grant."""
        granted_ids = frozenset(ids)
        for device in devices:
            if device.exclusive_keys:
                name = f"{resource} {device.id}"
                self._remove_grant(name)
                self._grants[name] = (device, granted_ids)
                for key in _list_all_keys(device):
                    self._names_by_key.setdefault(key, {})[name] = None

    def _remove_grant(self, name: str) -> None:
        device, _ = self._grants.pop(name, (None, None))
        for key in _list_all_keys(device) if device else ():
            del self._names_by_key[key][name]
            if not self._names_by_key[key]:
                del self._names_by_key[key]


def find_listed_holder(
    device: Device, ids: Collection[str], listed_devices: Iterable[tuple[str, Device]], held_ids: Container[str]
) -> str:
    """Return the listed and held device that excludes this one, or an empty string.

    Args:
        device: the requested device.
        ids: all requested IDs. Devices of one request do not exclude each other.
        listed_devices: devices, each with its resource.
        held_ids: the ids that pods may hold.
    """
    if _has_any(device.list_ids(), held_ids):
        return ""
    for name, other in listed_devices:
        other_ids = frozenset(other.list_ids())
        if _exclude_each_other(other, device) and _has_any(other_ids, held_ids) and other_ids.isdisjoint(ids):
            return f"{name} {other.id}"
    return ""


def _exclude_each_other(device: Device, other: Device) -> bool:
    """Return whether two pods cannot get these devices at the same time."""
    return not (set(device.exclusive_keys).isdisjoint(other.keys) and set(device.keys).isdisjoint(other.exclusive_keys))


def _list_all_keys(device: Device) -> frozenset[str]:
    """Return the keys of a device and its exclusive keys."""
    return frozenset((*device.keys, *device.exclusive_keys))


def _has_any(ids: Iterable[str], held_ids: Container[str]) -> bool:
    return any(id_ in held_ids for id_ in ids)
