"""The sweep: all that was asked before is asked again, and what answers otherwise is judged as after an event."""

from __future__ import annotations

from collections.abc import Sequence

from agent.core.entry.resource import ResourceSpec
from agent.core.inventory.gates import gate_key
from agent.core.inventory.listing import Listing, different
from agent.core.inventory.look import Look
from agent.core.inventory.touched import EVERYTHING, Touched
from agent.scanners.asked import Memory
from agent.scanners.reading import HostReader


def narrowed(
    specs: Sequence[ResourceSpec], listing: Listing, reader: HostReader, previous: Look, touched: Touched
) -> Touched:
    """What a sweep has to judge: what was listed or answers otherwise than in `previous`; or still everything.

    Beside that what is in `touched`, and the gates, which also wait for programs.
    """
    memory = previous.memory
    if not isinstance(memory, Memory) or not memory.serves(specs):
        return EVERYTHING
    changed = {(device.source, device.key) for device in different(previous.listing, listing)}
    found = reader.again(memory.looks, changed)
    if found is None:
        return EVERYTHING
    gates = (gate_key(entry) for entry, spec in enumerate(specs) if spec.gate or spec.prepare)
    return found | Touched(touched.paths, touched.subsystems, sources=touched.sources, keys=touched.keys.union(gates))


def remembering(
    specs: Sequence[ResourceSpec], now: Look, reader: HostReader, previous: Look, *, swept: bool
) -> Memory | None:
    """What the next sweep is to ask; None if it is to judge everything. `swept`: whether this was one."""
    before = previous.memory if isinstance(previous.memory, Memory) else None
    if swept:
        sweeps = before.sweeps + 1 if before is not None and before.serves(specs) else 0
        return Memory(tuple(specs), (reader.asked,), sweeps)
    if before is None or now is previous:
        return before
    return before.and_of(reader.asked)
