"""Source `fixed`: names from the entry, which always exist."""

from __future__ import annotations

from agent.core.entry.resource_spec import Source
from agent.core.inventory.device import HostDevice
from agent.core.inventory.dirty_set import DirtySet
from agent.host.root import Root
from agent.scanners.scanner import SourceListing
from agent.scanners.word_table import make_table

KIND = "fixed"
DEFAULT_IDS: tuple[str, ...] = ("{name}",)
TABLE = make_table("fixed")


def scan(root: Root, source: Source, previous: SourceListing, dirty_set: DirtySet) -> SourceListing:
    """See `Scanner.scan`."""
    del root, dirty_set
    if previous.devices:
        return previous
    return SourceListing(tuple(HostDevice(KIND, f"{KIND}:{name}", name, f"{KIND}:{name}") for name in source.arguments))


def is_affected(source: Source, previous: SourceListing, dirty_set: DirtySet) -> bool:
    """See `Scanner.is_affected`: the host cannot change the names of the entry."""
    del source, dirty_set
    return not previous.devices


def is_same_device(root: Root, device: HostDevice) -> bool:
    """See `Scanner.is_same_device`."""
    del root, device
    return True


def list_directories(root: Root, source: Source, listing: SourceListing) -> frozenset[str]:
    """See `Scanner.list_directories`."""
    del root, source, listing
    return frozenset()
