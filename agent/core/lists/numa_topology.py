"""Withheld topology: devices without a NUMA node, because of which the kubelet gets no NUMA node of their resource."""

from __future__ import annotations

from operator import attrgetter
from typing import NamedTuple

from agent.core.inventory.device import DeviceList
from agent.core.inventory.inventory import Inventory

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
