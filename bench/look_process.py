"""Look at a generated machine in a separate process, and print the cost as JSON.

Arguments: the tree's root (`/` where it is mounted over /sys), the directory of the configuration, how often.
"""

from __future__ import annotations

import gc
import json
import sys
import time
import tracemalloc
from collections.abc import Callable, Sequence

from agent.config.load import load
from agent.core.entry.resource_spec import ResourceSpec
from agent.core.inventory.dirty_set import ALL_DIRTY, DirtySet
from agent.core.inventory.inventory import Inventory
from agent.core.lists.build_lists import build_lists
from agent.host.root import Root
from agent.scanners.host_reader import HostView
from agent.tracker.look_thread import run_look


def main() -> None:
    """Parse the command line."""
    prefix, configuration, repetitions = sys.argv[1], sys.argv[2], int(sys.argv[3])
    root, specs = Root(prefix), load(configuration).resources
    first, _ = run_look(HostView(root), specs, Inventory(), ALL_DIRTY)
    devices = sum(map(len, first.listing.devices.values()))
    told = build_lists(first, specs, frozenset(), {}, 0.0)
    gc.collect()
    gc.freeze()  # as the agent does once it is ready

    def event(kind: str) -> Callable[[], None]:
        """One device in the middle of a source's list was touched: what follows, up to the lists."""
        found = next(found for source, found in first.listing.devices.items() if source.kind == kind)
        touched = DirtySet(frozenset({found[len(found) // 2].directory}), frozenset({kind}))

        def follow() -> None:
            now, _ = run_look(HostView(root), specs, first, touched)
            build_lists(now, specs, frozenset(), told.lists, 1.0, unchanged_lists=told.unchanged_lists)

        return follow

    result = {
        "resources": len(specs),
        "devices": devices,
        "taken": sum(len(snapshot.devices) for snapshot in told.lists.values()),
        "fresh": _cpu(lambda: run_look(HostView(root), specs, Inventory(), ALL_DIRTY), repetitions),
        "sweep": _cpu(lambda: run_look(HostView(root), specs, first, ALL_DIRTY), repetitions),
        "events": {kind: _cpu(event(kind), repetitions * 10) for kind in ("pci", "net", "usb", "drm")},
        "bytes": _bytes(root, specs) / devices,
    }
    print(json.dumps(result))


def _cpu(work: Callable[[], object], repetitions: int) -> Sequence[float]:
    """Milliseconds of CPU of each of so many times."""
    taken = []
    for _ in range(repetitions):
        begun = time.process_time()
        work()
        taken.append((time.process_time() - begun) * 1000)
    return taken


def _bytes(root: Root, specs: Sequence[ResourceSpec]) -> int:
    """Measure the memory of an inventory and its lists."""
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    look, _ = run_look(HostView(root), specs, Inventory(), ALL_DIRTY)
    kept = look, build_lists(look, specs, frozenset(), {}, 0.0)
    gc.collect()
    size = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    del kept
    return size


if __name__ == "__main__":
    main()
