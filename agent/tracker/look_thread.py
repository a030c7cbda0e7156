"""Looks in a thread of their own: a slow or dead device cannot stop the event loop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from functools import partial

from agent.core.entry.program import Command
from agent.core.entry.resource_spec import ResourceSpec
from agent.core.inventory.dirty_set import ALL_DIRTY, DirtySet
from agent.core.inventory.in_pod import MovableDevice
from agent.core.inventory.inventory import NO_MOVABLE_DEVICES, Inventory, update_inventory
from agent.core.language.safe_text import escape
from agent.core.struct import replace
from agent.host.daemon_thread import start_in_thread
from agent.host.root import Root
from agent.scanners import source_kinds
from agent.scanners.full_rescan import build_read_history, find_changes
from agent.scanners.host_reader import HostReader, HostView

SILENT_SECONDS = 2.0  # a file that a look is still reading after so long will not answer soon

log = logging.getLogger(__name__)


class LookThread:
    """The thread that looks at the host. It skips paths whose read does not return.

    Args:
        host: the host.
    """

    def __init__(self, host: HostView) -> None:
        self._root = Root(host.root.prefix or "/")  # its own, so that `paths_in_read` contains only its looks
        self._host = replace(host, root=self._root)

    async def run(
        self,
        specs: Sequence[ResourceSpec],
        previous: Inventory,
        dirty_set: DirtySet,
        *,
        prepare_results: Mapping[Command, str] | None = None,
        movable_devices: Mapping[str, MovableDevice] = NO_MOVABLE_DEVICES,
    ) -> tuple[Inventory, frozenset[str]]:
        """Look at the host; see `run_look` for the result.

        A file whose read does not return is skipped, and the look starts again without the file. Dead hardware costs
        its own facts, and once some seconds for the others. A look that is only slow continues.
        """
        take = partial(run_look, self._host, prepare_results=prepare_results, movable_devices=movable_devices)
        silent_candidates: set[str] = set()
        look = start_in_thread(take, specs, previous, dirty_set)
        try:
            while not (await asyncio.wait([look], timeout=SILENT_SECONDS))[0]:
                current_paths = set(self._root.paths_in_read.values()) - self._root.silent_paths
                if silent_paths := current_paths & silent_candidates:
                    self._skip_paths(silent_paths)
                    look.cancel()
                    # The old thread may still change the read history. No other thread may use it.
                    previous = replace(previous, read_history=None)
                    look = start_in_thread(take, specs, previous, dirty_set | ALL_DIRTY)
                silent_candidates = current_paths - silent_paths
            return look.result()
        finally:
            look.cancel()

    def _skip_paths(self, silent_paths: set[str]) -> None:
        """Skip paths until the one read that waits for each of them returns."""
        for path in sorted(silent_paths):
            log.error("%s: a read does not return. The agent skips this path until the read returns", escape(path))
        self._root.silent_paths |= silent_paths


def list_device_directories(root: Root, specs: Sequence[ResourceSpec]) -> frozenset[str]:
    """Return the directories below /dev where devices can appear, as known before the first look."""
    return source_kinds.list_watched_directories(root, {source for spec in specs for source in spec.sources})


def run_look(
    host: HostView,
    specs: Sequence[ResourceSpec],
    previous: Inventory,
    dirty_set: DirtySet,
    *,
    prepare_results: Mapping[Command, str] | None = None,
    movable_devices: Mapping[str, MovableDevice] = NO_MOVABLE_DEVICES,
) -> tuple[Inventory, frozenset[str]]:
    """Return the inventory, and the directories where the host can change without an event.

    Facts outside of `dirty_set` come from `previous`. A full rescan keeps facts that have not changed.
    """
    sources = tuple(dict.fromkeys(source for spec in specs for source in spec.sources))
    listing = source_kinds.list_devices(host.root, sources, previous.listing, dirty_set)
    reader = HostReader(host)
    rescan_changes = find_changes(specs, listing, reader, previous, dirty_set) if dirty_set.is_full_rescan else None
    inventory = update_inventory(
        specs,
        listing,
        reader,
        previous,
        dirty_set if rescan_changes is None else rescan_changes,
        program_results=prepare_results,
        movable_devices=movable_devices,
    )
    if rescan_changes is not None or inventory is not previous:
        inventory = replace(
            inventory,
            read_history=build_read_history(specs, inventory, reader, previous, is_rescan=rescan_changes is not None),
        )
    return inventory, frozenset(inventory.path_index.watched_directories).union(*listing.watched_directories.values())
