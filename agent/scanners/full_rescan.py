"""The sweep: all that was asked before is asked again, and what answers otherwise is judged as after an event."""

from __future__ import annotations

from collections.abc import Sequence

from agent.core.entry.resource_spec import ResourceSpec
from agent.core.inventory.dirty_set import ALL_DIRTY, DirtySet
from agent.core.inventory.inventory import Inventory
from agent.core.inventory.listing import Listing, find_changed_devices
from agent.core.inventory.preconditions import gate_key
from agent.scanners.host_reader import HostReader
from agent.scanners.read_history import ReadHistory


def find_changes(
    specs: Sequence[ResourceSpec], listing: Listing, reader: HostReader, previous: Inventory, touched: DirtySet
) -> DirtySet:
    """What a sweep has to judge: what was listed or answers otherwise than in `previous`; or still everything.

    Beside that what is in `touched`, and the gates, which also wait for programs.
    """
    memory = previous.memory
    if not isinstance(memory, ReadHistory) or not memory.is_valid_for(specs):
        return ALL_DIRTY
    changed = {(device.source, device.key) for device in find_changed_devices(previous.listing, listing)}
    found = reader.reread(memory.looks, changed)
    if found is None:
        return ALL_DIRTY
    gates = (gate_key(entry) for entry, spec in enumerate(specs) if spec.gate or spec.prepare)
    return found | DirtySet(touched.paths, touched.subsystems, sources=touched.sources, keys=touched.keys.union(gates))


def build_read_history(
    specs: Sequence[ResourceSpec], now: Inventory, reader: HostReader, previous: Inventory, *, swept: bool
) -> ReadHistory | None:
    """What the next sweep is to ask; None if it is to judge everything. `swept`: whether this was one."""
    before = previous.memory if isinstance(previous.memory, ReadHistory) else None
    if swept:
        sweeps = before.rescans + 1 if before is not None and before.is_valid_for(specs) else 0
        return ReadHistory(tuple(specs), (reader.reads,), sweeps)
    if before is None or now is previous:
        return before
    return before.add_look(reader.reads)
