"""Source `pci`: every PCI function."""

from __future__ import annotations

from collections.abc import Mapping

from agent.core.inventory.device import HostDevice, pci_key
from agent.core.inventory.listing import SkippedPath
from agent.core.language.value import Absent
from agent.scanners.pci_words import PCI
from agent.scanners.subsystem_listing import DISAPPEARED_REASON, make_scanner_functions
from agent.scanners.word_table import PCI_ADDRESS, LookCache

KIND = "pci"
DEFAULT_IDS: tuple[str, ...] = ("{address}",)
TABLE = PCI


def _see(sight: LookCache, path: str, before: Mapping[str, HostDevice]) -> HostDevice | SkippedPath:
    name = path.rpartition("/")[2]
    if not PCI_ADDRESS.fullmatch(name):
        return SkippedPath(path, "is no PCI address")
    old = before.get(name)
    if old and not sight.root.prefix and sight.root.read_instance_id(old.directory) == old.stamp:
        return old  # the kernel gives no inode of sysfs twice, and lists no two by one name
    directory = sight.root.resolve_device(path)
    if isinstance(directory, Absent):
        return SkippedPath(path, directory.reason)
    stamp = sight.root.read_instance_id(directory)
    if not stamp:
        return SkippedPath(path, DISAPPEARED_REASON)
    if old and (old.stamp, old.directory) == (stamp, directory):
        return old
    return HostDevice(KIND, pci_key(name), name, name, directory, "", stamp)


scan, is_affected, is_same_device, list_directories = make_scanner_functions(lambda _: KIND, lambda _: _see)
