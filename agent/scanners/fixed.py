"""Source `fixed`: names that the entry says, always there."""

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
    """See `Scanner.concerns`: nothing on the host can change what the entry says."""
    del source, dirty_set
    return not previous.devices


def is_same_device(root: Root, device: HostDevice) -> bool:
    """See `Scanner.same`."""
    del root, device
    return True


def list_directories(root: Root, source: Source, listing: SourceListing) -> frozenset[str]:
    """See `Scanner.directories`."""
    del root, source, listing
    return frozenset()
