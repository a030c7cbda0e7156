"""Source `pci`: every PCI function."""

from __future__ import annotations

from collections.abc import Mapping

from agent.core.inventory.device import HostDevice, make_pci_key
from agent.core.inventory.listing import SkippedPath
from agent.core.language.value import Absent
from agent.scanners.pci_words import PCI
from agent.scanners.subsystem_listing import DISAPPEARED_REASON, make_scanner_functions
from agent.scanners.word_table import PCI_ADDRESS, LookCache

KIND = "pci"
DEFAULT_IDS: tuple[str, ...] = ("{address}",)
TABLE = PCI


def _make_device(cache: LookCache, path: str, previous_devices: Mapping[str, HostDevice]) -> HostDevice | SkippedPath:
    name = path.rpartition("/")[2]
    if not PCI_ADDRESS.fullmatch(name):
        return SkippedPath(path, "is no PCI address")
    previous = previous_devices.get(name)
    if previous and not cache.root.prefix and cache.root.read_instance_id(previous.directory) == previous.instance_id:
        return previous  # the kernel uses no sysfs inode twice, and lists each name once
    directory = cache.root.resolve_device(path)
    if isinstance(directory, Absent):
        return SkippedPath(path, directory.reason)
    instance_id = cache.root.read_instance_id(directory)
    if not instance_id:
        return SkippedPath(path, DISAPPEARED_REASON)
    if previous and (previous.instance_id, previous.directory) == (instance_id, directory):
        return previous
    return HostDevice(KIND, make_pci_key(name), name, name, directory, "", instance_id)


scan, is_affected, is_same_device, list_directories = make_scanner_functions(lambda _: KIND, lambda _: _make_device)
