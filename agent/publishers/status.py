"""The status: log lines of changed devices, of missing devices and of withheld NUMA nodes."""

from __future__ import annotations

from agent.core.lists.list_findings import find_missing_devices, find_withheld_topology
from agent.tracker.list_publisher import Publication
from agent.wiring import AgentParts


def publish(parts: AgentParts, publication: Publication) -> None:
    """Report the new lists to the status."""
    lists, previous_lists, is_first = publication.lists, publication.previous.lists, publication.is_first
    specs, inventory = parts.tracker.specs, parts.tracker.inventory
    parts.status.record_lists(previous_lists, lists, is_first=is_first)
    parts.status.set_withheld_topologies(
        {
            name: find_withheld_topology(list_, inventory)
            for name, list_ in lists.lists.items()
            if is_first or previous_lists.get(name) is not list_
        }
    )
    parts.status.set_missing(find_missing_devices(specs, inventory, lists))
