"""What a source kind is: one module of this package with these names in it."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from agent.core.entry.resource_spec import Source
from agent.core.inventory.device import HostDevice
from agent.core.inventory.dirty_set import DirtySet
from agent.core.inventory.listing import SkippedPath
from agent.host.root import Root
from agent.scanners.word_table import WordTable


class SourceListing(NamedTuple):
    """What one source sees: its devices in natural order of name, and what it did not take for one."""

    devices: tuple[HostDevice, ...] = ()
    skipped_paths: tuple[SkippedPath, ...] = ()


class Scanner(Protocol):
    """A kind of source.

    KIND: its name in `source`. DEFAULT_IDS: texts of `id` where an entry says none, best first. TABLE: its words.
    """

    KIND: str
    DEFAULT_IDS: tuple[str, ...]
    TABLE: WordTable

    def scan(self, root: Root, source: Source, previous: SourceListing, dirty_set: DirtySet) -> SourceListing:
        """What is there now. What cannot be listed keeps its devices of `previous`, with an oddity that says so.

        `touched` is everything, or what may differ from `previous`; the answer is the same either way.
        """

    def is_affected(self, source: Source, previous: SourceListing, dirty_set: DirtySet) -> bool:
        """Whether a touched path or subsystem can change what the source sees. Asked of all at each event."""

    def is_same_device(self, root: Root, device: HostDevice) -> bool:
        """Whether what stands at the device's place now is the very thing that was listed. Reads no attribute."""

    def list_directories(self, root: Root, source: Source, listing: SourceListing) -> frozenset[str]:
        """The directories in which devices of this source come and go without an event of the kernel's."""
