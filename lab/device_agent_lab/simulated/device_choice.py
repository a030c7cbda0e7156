"""The choice of devices for a container: devicesToAllocate of dm/manager.go, after the checks."""

import random
from collections.abc import Awaitable, Callable, Collection, Mapping

from device_agent_lab.simulated.device_table import ListedDevice
from device_agent_lab.simulated.errors import AllocationError

# (available IDs, required IDs, count) -> the preferred IDs, or nothing
Prefer = Callable[[frozenset[str], frozenset[str], int], Awaitable[Collection[str]]]


def filter_by_affinity(
    available: Collection[str], devices: Mapping[str, ListedDevice], nodes: frozenset[int] | None
) -> tuple[set[str], set[str], set[str]]:
    """Return the devices on the nodes, on other nodes, and without a node (filterByAffinity)."""
    if nodes is None or not any(device.nodes for device in devices.values()):
        return set(), set(), set(available)
    aligned: set[str] = set()
    unaligned: set[str] = set()
    homeless: set[str] = set()
    for device_id in available:
        device_nodes = devices[device_id].nodes
        (aligned if nodes & set(device_nodes) else unaligned if device_nodes else homeless).add(device_id)
    return aligned, unaligned, homeless


class Choice:
    """The devices chosen so far for one container. Each choice changes `allocated` at once, as in the kubelet."""

    def __init__(self, count: int, allocated: set[str], chance: random.Random) -> None:
        self.ids: set[str] = set()
        self._count = count
        self._allocated = allocated
        self._chance = chance

    @property
    def is_complete(self) -> bool:
        return len(self.ids) >= self._count

    def take(self, ids: Collection[str]) -> bool:
        """Choose from these IDs, in the random order of a Go set, until there are enough. Return whether there are
        enough.
        """
        for device_id in shuffle(set(ids) - self.ids, self._chance):
            if self.is_complete:
                break
            self._allocated.add(device_id)
            self.ids.add(device_id)
        return self.is_complete

    async def choose(
        self,
        resource: str,
        healthy: Collection[str],
        reusable: Collection[str],
        *,
        devices: Mapping[str, ListedDevice],
        nodes: frozenset[int] | None,
        prefer: Prefer,
    ) -> frozenset[str]:
        if reusable and self.take(reusable):
            return frozenset(self.ids)
        available = set(healthy) - self._allocated
        needed = self._count - len(self.ids)
        if len(available) < needed:
            raise AllocationError(
                f"requested number of devices unavailable for {resource}. "
                f"Requested: {needed}, Available: {len(available)}"
            )
        aligned, unaligned, homeless = filter_by_affinity(available, devices, nodes)
        if needed < len(aligned):
            must = frozenset(self.ids)
            wish = set(await prefer(frozenset(aligned) | must, must, self._count))
            steps = [wish & aligned, aligned]
        elif self.take(aligned):
            return frozenset(self.ids)
        else:
            must = frozenset(self.ids)
            wish = set(await prefer(frozenset(available) | must, must, self._count))
            steps = [wish & available, unaligned, homeless]
        for ids in steps:
            if self.take(ids):
                return frozenset(self.ids)
        raise AllocationError(
            f"unexpectedly allocated less resources than required. Requested: {self._count}, Got: {len(self.ids)}"
        )


def shuffle(ids: Collection[str], chance: random.Random) -> list[str]:
    """Return the IDs in a random order, as Go does. The same seed gives the same order."""
    return chance.sample(sorted(ids), len(ids))
