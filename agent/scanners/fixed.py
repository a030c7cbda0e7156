"""Source `fixed`: names that the entry says, always there."""

from __future__ import annotations

from agent.core.entry.resource_spec import Source
from agent.core.inventory.device import HostDevice
from agent.core.inventory.dirty_set import DirtySet
from agent.host.root import Root
from agent.scanners.scanner import Found
from agent.scanners.word_table import table

KIND = "fixed"
DEFAULT_IDS: tuple[str, ...] = ("{name}",)
TABLE = table("fixed")


def scan(root: Root, source: Source, previous: Found, touched: DirtySet) -> Found:
    """See `Scanner.scan`."""
    del root, touched
    if previous.devices:
        return previous
    return Found(tuple(HostDevice(KIND, f"{KIND}:{name}", name, f"{KIND}:{name}") for name in source.arguments))


def concerns(source: Source, previous: Found, touched: DirtySet) -> bool:
    """See `Scanner.concerns`: nothing on the host can change what the entry says."""
    del source, touched
    return not previous.devices


def same(root: Root, device: HostDevice) -> bool:
    """See `Scanner.same`."""
    del root, device
    return True


def directories(root: Root, source: Source, found: Found) -> frozenset[str]:
    """See `Scanner.directories`."""
    del root, source, found
    return frozenset()
