"""The interface of a source kind: one module of this package with these names in it."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from agent.core.entry.resource_spec import Source
from agent.core.inventory.device import HostDevice
from agent.core.inventory.dirty_set import DirtySet
from agent.core.inventory.listing import SkippedPath
from agent.host.root import Root
from agent.scanners.word_table import WordTable


class SourceListing(NamedTuple):
    """The result of one source: its devices in natural order of name, and the skipped paths."""

    devices: tuple[HostDevice, ...] = ()
    skipped_paths: tuple[SkippedPath, ...] = ()


class Scanner(Protocol):
    """A source kind.

    KIND: its name in `source`.
    DEFAULT_IDS: templates of `id` for an entry without one, best first.
    TABLE: its words.
    """

    KIND: str
    DEFAULT_IDS: tuple[str, ...]
    TABLE: WordTable

    def scan(self, root: Root, source: Source, previous: SourceListing, dirty_set: DirtySet) -> SourceListing:
        """Return the current listing. If a list cannot be read, its devices of `previous` stay, with a skipped path.

        dirty_set: everything, or what may differ from `previous`. The result is the same in both cases.
        """

    def is_affected(self, source: Source, previous: SourceListing, dirty_set: DirtySet) -> bool:
        """Return whether a dirty path or subsystem can change the listing of the source.

        Called for all sources at each event.
        """

    def is_same_device(self, root: Root, device: HostDevice) -> bool:
        """Return whether the device at this path is still the listed one. No attribute is read."""

    def list_directories(self, root: Root, source: Source, listing: SourceListing) -> frozenset[str]:
        """Return the directories in which devices of this source appear and disappear without a kernel event."""
