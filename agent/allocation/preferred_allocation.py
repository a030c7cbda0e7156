"""GetPreferredAllocation: the choice pools of the resources, each cached until its inputs change."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from agent.core.entry.resource_spec import ResourceSpec
from agent.core.grants.prefer import NO_LIMIT, ChoicePool, build_choice_pool, prefer
from agent.registry import Registry
from agent.reread import CurrentInventory


class TrackerView(CurrentInventory, Protocol):
    """The data of the tracker."""

    def find_entry(self, resource: str) -> ResourceSpec | None:
        """Return the entry of a resource, or None."""


class PreferredAllocation:
    """The preferred devices for a container, from the inventory of the last look. Reads no host facts."""

    def __init__(self, registry: Registry, tracker: TrackerView) -> None:
        self._registry = registry
        self._tracker = tracker
        self._pools: dict[str, tuple[tuple[object, ...], ChoicePool]] = {}

    def prefer(self, resource: str, available: Sequence[str], must_include: Sequence[str], size: int) -> Sequence[str]:
        """Return the preferred IDs for a container, or nothing if there is no preference."""
        spec = self._tracker.find_entry(resource)
        limit = spec.limit if spec else NO_LIMIT
        return prefer(available, must_include, size, limit, self._get_pool(resource, spec))

    def _get_pool(self, resource: str, spec: ResourceSpec | None) -> ChoicePool:
        """Return the choice pool, built once for each list and its candidates."""
        written = spec.written_name if spec else ""
        candidates = self._tracker.inventory.get_resource_candidates().get((resource, written), {})
        inputs = self._registry.get_list(resource), candidates, self._tracker.specs
        cache_entry = self._pools.get(resource)
        if cache_entry is None or any(
            value is not cached_value for value, cached_value in zip(cache_entry[0], inputs, strict=True)
        ):
            cache_entry = self._pools[resource] = (
                inputs,
                build_choice_pool(inputs[0], spec, candidates, self._tracker.specs),
            )
        return cache_entry[1]
