"""The full rescan: read all facts of earlier looks again. A different answer is handled as after an event."""

from __future__ import annotations

from collections.abc import Sequence

from agent.core.entry.resource_spec import ResourceSpec
from agent.core.inventory.dirty_set import ALL_DIRTY, DirtySet
from agent.core.inventory.inventory import Inventory
from agent.core.inventory.listing import Listing, find_changed_devices
from agent.core.inventory.preconditions import make_precondition_key
from agent.scanners.host_reader import HostReader
from agent.scanners.read_history import ReadHistory


def find_changes(
    specs: Sequence[ResourceSpec], listing: Listing, reader: HostReader, previous: Inventory, dirty_set: DirtySet
) -> DirtySet:
    """Return the dirty set of a full rescan: changed listings and different answers. `ALL_DIRTY` if the history is
    unusable.

    The result includes `dirty_set` and the preconditions, which also wait for programs.
    """
    history = previous.read_history
    if not isinstance(history, ReadHistory) or not history.is_valid_for(specs):
        return ALL_DIRTY
    changed = {(device.source, device.key) for device in find_changed_devices(previous.listing, listing)}
    differences = reader.reread(history.looks, changed)
    if differences is None:
        return ALL_DIRTY
    gates = (make_precondition_key(entry) for entry, spec in enumerate(specs) if spec.gate or spec.prepare)
    return differences | DirtySet(
        dirty_set.paths, dirty_set.subsystems, sources=dirty_set.sources, keys=dirty_set.keys.union(gates)
    )


def build_read_history(
    specs: Sequence[ResourceSpec], current: Inventory, reader: HostReader, previous: Inventory, *, is_rescan: bool
) -> ReadHistory | None:
    """Return the history for the next full rescan, or None if that must match everything.

    `is_rescan`: this look was one.
    """
    previous_history = previous.read_history if isinstance(previous.read_history, ReadHistory) else None
    if is_rescan:
        rescans = (
            previous_history.rescans + 1 if previous_history is not None and previous_history.is_valid_for(specs) else 0
        )
        return ReadHistory(tuple(specs), (reader.reads,), rescans)
    if previous_history is None or current is previous:
        return previous_history
    return previous_history.add_look(reader.reads)
