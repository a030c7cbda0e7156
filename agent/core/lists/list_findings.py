"""Findings about lists: fewer devices than `expect` says, and NUMA nodes that the kubelet does not get."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import NamedTuple

from agent.core.entry.resource_spec import ResourceSpec
from agent.core.inventory.device import DeviceList
from agent.core.inventory.inventory import Inventory
from agent.core.lists.build_lists import DeviceLists


def find_missing_devices(specs: Sequence[ResourceSpec], inventory: Inventory, lists: DeviceLists) -> Mapping[str, str]:
    """Return a text about the devices on the host for each entry that expects more, by written name."""
    missing: dict[str, str] = {}
    for spec in specs:
        if spec.expect is None or spec.is_addition:
            continue
        count = _count_candidates(spec, inventory) if spec.slots else _count_listed_devices(spec, lists)
        if count < spec.expect:
            missing[spec.name] = f"{count} of {spec.expect} expected device{'s' * (spec.expect != 1)}"
    return missing


def _count_listed_devices(spec: ResourceSpec, lists: DeviceLists) -> int:
    names = [name for name, written_name in lists.written_names.items() if (written_name or name) == spec.name]
    devices = (device for name in names if name in lists.lists for device in lists.lists[name].devices)
    return len({device.key for device in devices if device.absent_since is None})


def _count_candidates(spec: ResourceSpec, inventory: Inventory) -> int:
    return sum(
        len(candidates)
        for (name, written_name), candidates in inventory.get_resource_candidates().items()
        if (written_name or name) == spec.name
    )


_MAX_NAMES = 3  # IDs in a text


class WithheldTopology(NamedTuple):
    """A resource whose NUMA nodes the agent does not send: how many devices have one, and the IDs of those without.

    The kubelet ignores devices without a node if others have one. So the agent sends the nodes of all devices or of
    none.
    """

    device_count: int
    ids_without_node: tuple[str, ...]

    @property
    def text(self) -> str:
        """The same as a sentence."""
        count, other_count = len(self.ids_without_node), self.device_count
        names = ", ".join(self.ids_without_node[:_MAX_NAMES]) + (
            f" and {count - _MAX_NAMES} more" if count > _MAX_NAMES else ""
        )
        return (
            f"{names} {'has' if count == 1 else 'have'} no NUMA node, so that of the {other_count} "
            f"other{'s' * (other_count != 1)} is not told to the kubelet"
        )


def find_withheld_topology(device_list: DeviceList, inventory: Inventory) -> WithheldTopology | None:
    """Return why a list has no NUMA nodes although some of its devices have one, or None."""
    get_numa = attrgetter("numa")
    if any(map(get_numa, device_list.devices)):
        return None
    candidate_maps = (
        candidates
        for (name, _), candidates in inventory.get_resource_candidates().items()
        if name == device_list.resource
    )
    if not any(any(map(get_numa, candidates.values())) for candidates in candidate_maps):
        return None
    devices = [(device, inventory.get_candidate(device.key)) for device in device_list.devices]
    ids_without_node = tuple(device.id for device, candidate in devices if candidate is None or not candidate.numa)
    device_count = len(devices) - len(ids_without_node)
    return WithheldTopology(device_count, ids_without_node) if device_count else None
