"""Which devices a container gets: devicesToAllocate of dm/manager.go from where the checks are done."""

import random
from collections.abc import Awaitable, Callable, Collection, Mapping

from agent.kubelet.simulated.device_table import ListedDevice
from agent.kubelet.simulated.errors import AllocationError

# (offered, must be included, wanted) -> the plugin's wish; empty without one.
Prefer = Callable[[frozenset[str], frozenset[str], int], Awaitable[Collection[str]]]


def by_affinity(
    available: Collection[str], devices: Mapping[str, ListedDevice], nodes: frozenset[int] | None
) -> tuple[set[str], set[str], set[str]]:
    """filterByAffinity: on the nodes, on others, on none."""
    if nodes is None or not any(device.nodes for device in devices.values()):
        return set(), set(), set(available)
    aligned: set[str] = set()
    unaligned: set[str] = set()
    homeless: set[str] = set()
    for device_id in available:
        at = devices[device_id].nodes
        (aligned if nodes & set(at) else unaligned if at else homeless).add(device_id)
    return aligned, unaligned, homeless


class Choice:
    """The devices taken so far for one container; `taken` is told at once, as the kubelet does."""

    def __init__(self, wanted: int, taken: set[str], chance: random.Random) -> None:
        self.ids: set[str] = set()
        self._wanted = wanted
        self._taken = taken
        self._chance = chance

    @property
    def complete(self) -> bool:
        return len(self.ids) >= self._wanted

    def take(self, ids: Collection[str]) -> bool:
        """In the order of a Go set, which is none, until there are enough."""
        for device_id in shuffled(set(ids) - self.ids, self._chance):
            if self.complete:
                break
            self._taken.add(device_id)
            self.ids.add(device_id)
        return self.complete

    async def make(
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
        available = set(healthy) - self._taken
        needed = self._wanted - len(self.ids)
        if len(available) < needed:
            raise AllocationError(
                f"requested number of devices unavailable for {resource}. "
                f"Requested: {needed}, Available: {len(available)}"
            )
        aligned, unaligned, homeless = by_affinity(available, devices, nodes)
        if needed < len(aligned):
            must = frozenset(self.ids)
            wish = set(await prefer(frozenset(aligned) | must, must, self._wanted))
            steps = [wish & aligned, aligned]
        elif self.take(aligned):
            return frozenset(self.ids)
        else:
            must = frozenset(self.ids)
            wish = set(await prefer(frozenset(available) | must, must, self._wanted))
            steps = [wish & available, unaligned, homeless]
        for ids in steps:
            if self.take(ids):
                return frozenset(self.ids)
        raise AllocationError(
            f"unexpectedly allocated less resources than required. Requested: {self._wanted}, Got: {len(self.ids)}"
        )


def shuffled(ids: Collection[str], chance: random.Random) -> list[str]:
    """Go's order of a set, but the same for the same seed."""
    return chance.sample(sorted(ids), len(ids))
