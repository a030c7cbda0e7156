"""NUMA hints of the device manager, and their merge in the topology manager. All functions are pure."""

from collections.abc import Collection, Iterable, Mapping
from itertools import combinations, product

from agent.core.struct import Struct
from device_agent_lab.simulated.device_table import ListedDevice
from device_agent_lab.simulated.errors import KubeletCrashed

POLICIES = ("none", "best-effort", "restricted", "single-numa-node")


class Hint(Struct):
    """A sufficient set of NUMA nodes. None means any node."""

    nodes: frozenset[int] | None
    preferred: bool


def has_topology(devices: Iterable[ListedDevice]) -> bool:
    return any(device.nodes for device in devices)


def compute_hints(
    devices: Mapping[str, ListedDevice],
    available: Collection[str],
    reusable: Collection[str],
    count: int,
    numa_nodes: Collection[int],
    *,
    used_nodes_only: bool = True,
) -> list[Hint]:
    """Return the hints of a resource (dm/topology_hints.go).

    Raises:
        KubeletCrashed: an ID of `available` or `reusable` is not listed.
    """
    for device_id in (*available, *reusable):
        if device_id not in devices:
            raise KubeletCrashed(f"nil dereference in hints: {device_id} is held or free, but no longer listed")
    nodes = sorted(numa_nodes)
    if used_nodes_only:
        used = {node for device in devices.values() for node in device.nodes}
        nodes = [node for node in nodes if node in used]
    fewest = len(nodes)
    masks: list[frozenset[int]] = []
    for mask in (frozenset(c) for size in range(1, len(nodes) + 1) for c in combinations(nodes, size)):
        if sum(1 for d in devices.values() if mask & set(d.nodes)) >= count:
            fewest = min(fewest, len(mask))
        matching = 0
        for device_id in reusable:
            if devices[device_id].nodes:
                if not mask & set(devices[device_id].nodes):
                    break
                matching += 1
        else:
            matching += sum(1 for i in available if i not in reusable and mask & set(devices[i].nodes))
            if matching >= count:
                masks.append(mask)
    return [Hint(mask, len(mask) == fewest) for mask in masks]


def merge_hints(hints_by_resource: Mapping[str, list[Hint] | None], numa_nodes: Collection[int], policy: str) -> Hint:
    """Return the merged hint of one container (cm/topologymanager). None is any node, an empty list is no node."""
    everywhere = frozenset(numa_nodes)
    choices = [
        [Hint(None, True)] if hints is None else (hints or [Hint(None, False)]) for hints in hints_by_resource.values()
    ]
    if policy == "single-numa-node":
        choices = [
            [h for h in c if h.preferred and (h.nodes is None or len(h.nodes) == 1)] or [Hint(None, False)]
            for c in choices
        ]
    result = Hint(everywhere, not choices)
    for combination in product(*choices):
        nodes = everywhere
        for hint in combination:
            nodes &= everywhere if hint.nodes is None else hint.nodes
        merged = Hint(nodes, all(hint.preferred for hint in combination))
        if nodes and _is_better(merged, result):
            result = merged
    return Hint(None, result.preferred) if result.nodes == everywhere else result


def _is_better(hint: Hint, other: Hint) -> bool:
    if hint.preferred != other.preferred:
        return hint.preferred
    return len(hint.nodes or ()) < len(other.nodes or ())


def is_admitted(hint: Hint, policy: str) -> bool:
    return hint.preferred or policy in ("none", "best-effort")
