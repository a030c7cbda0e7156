"""Source `drm`: every GPU that the kernel's DRM drives; its card and its render node are one host device."""

from __future__ import annotations

import re
from collections.abc import Iterator

from agent.core.entry.resource_spec import Source
from agent.core.inventory.device import HostDevice
from agent.core.inventory.dirty_set import DirtySet
from agent.core.inventory.listing import SkippedPath
from agent.core.language.value import Absent
from agent.host.root import Root
from agent.scanners.drm_words import DRM
from agent.scanners.path_id import build_bus_path, number_equal_locations
from agent.scanners.scanner import SourceListing
from agent.scanners.subsystem_listing import (
    is_same_device,
    list_names,
    list_watched_directories,
    make_device_key,
    may_have_changed,
)
from agent.scanners.word_table import LookCache

KIND = "drm"
DEFAULT_IDS: tuple[str, ...] = ("{pci.address}-drm", "{path_id}-drm")
TABLE = DRM

_MINOR = re.compile(r"(?:card|renderD)[0-9]+")  # connectors (card0-DP-1) and control nodes are not meant

__all__ = ["DEFAULT_IDS", "KIND", "TABLE", "is_affected", "is_same_device", "list_directories", "scan"]


def scan(root: Root, source: Source, previous: SourceListing, touched: DirtySet) -> SourceListing:
    """See `Scanner.scan`; the class is listed whole: it is short."""
    del source, touched
    listed = list_names(root, KIND, previous)
    if isinstance(listed, SourceListing):
        return listed
    place, names = listed
    sight = LookCache(root)
    minors: dict[str, list[str]] = {}
    oddities: list[SkippedPath] = []
    for name in names:
        if _MINOR.fullmatch(name):
            directory = root.resolve_device(f"{place}/{name}")
            if isinstance(directory, Absent):
                oddities.append(SkippedPath(f"{place}/{name}", directory.reason))
            else:
                minors.setdefault(_carrier(directory), []).append(directory)
    before = {device.directory: device for device in previous.devices}
    devices = [_seen(sight, directories, before) for of_one in minors.values() for directories in _pairs(of_one)]
    now = SourceListing(number_equal_locations(devices), tuple(oddities))
    return previous if now == previous else now


def is_affected(source: Source, previous: SourceListing, touched: DirtySet) -> bool:
    """See `Scanner.concerns`."""
    del source, previous
    return may_have_changed(KIND, touched)


def list_directories(root: Root, source: Source, found: SourceListing) -> frozenset[str]:
    """See `listed.watched`."""
    del source, found
    return list_watched_directories(root, KIND)


def _carrier(directory: str) -> str:
    """The device that the minor belongs to; itself for one without."""
    above, middle, _ = directory.rpartition("/drm/")
    return above if middle and above.startswith("/sys/devices/") and above != "/sys/devices/virtual" else directory


def _pairs(directories: list[str]) -> Iterator[tuple[str, ...]]:
    """The minors of one carrier by device: the first card with the first render node, and so on."""
    cards, renders = ([each for each in directories if _is_render(each) is render] for render in (False, True))
    for index in range(max(len(cards), len(renders))):
        yield (*cards[index : index + 1], *renders[index : index + 1])


def _is_render(directory: str) -> bool:
    return directory.rpartition("/")[2].startswith("renderD")


def _seen(sight: LookCache, minors: tuple[str, ...], before: dict[str, HostDevice]) -> HostDevice:
    directory = minors[0]
    stamp = " ".join(sight.root.read_instance_id(each) for each in minors)
    old = before.get(directory)
    if old and old.stamp == stamp:
        return old
    name = directory.rpartition("/")[2]
    place = f"{KIND}:{build_bus_path(sight, directory) or name}"
    return HostDevice(KIND, make_device_key(sight, directory), name, place, directory, "", stamp)
