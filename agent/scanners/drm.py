"""Source `drm`: every GPU with a DRM driver. Its card and its render node are one host device."""

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

_MINOR = re.compile(r"(?:card|renderD)[0-9]+")  # without connectors (card0-DP-1) and control nodes

__all__ = ["DEFAULT_IDS", "KIND", "TABLE", "is_affected", "is_same_device", "list_directories", "scan"]


def scan(root: Root, source: Source, previous: SourceListing, dirty_set: DirtySet) -> SourceListing:
    """See `Scanner.scan`. The class is always listed completely: it is short."""
    del source, dirty_set
    listed = list_names(root, KIND, previous)
    if isinstance(listed, SourceListing):
        return listed
    list_path, names = listed
    cache = LookCache(root)
    minors: dict[str, list[str]] = {}
    skipped_paths: list[SkippedPath] = []
    for name in names:
        if _MINOR.fullmatch(name):
            directory = root.resolve_device(f"{list_path}/{name}")
            if isinstance(directory, Absent):
                skipped_paths.append(SkippedPath(f"{list_path}/{name}", directory.reason))
            else:
                minors.setdefault(_find_carrier(directory), []).append(directory)
    previous_devices = {device.directory: device for device in previous.devices}
    devices = [
        _make_device(cache, directories, previous_devices)
        for carrier_minors in minors.values()
        for directories in _pair_minors(carrier_minors)
    ]
    current = SourceListing(number_equal_locations(devices), tuple(skipped_paths))
    return previous if current == previous else current


def is_affected(source: Source, previous: SourceListing, dirty_set: DirtySet) -> bool:
    """See `Scanner.is_affected`."""
    del source, previous
    return may_have_changed(KIND, dirty_set)


def list_directories(root: Root, source: Source, listing: SourceListing) -> frozenset[str]:
    """See `subsystem_listing.list_watched_directories`."""
    del source, listing
    return list_watched_directories(root, KIND)


def _find_carrier(directory: str) -> str:
    """Return the directory of the device that the minor belongs to, or the minor itself if it has none."""
    above, middle, _ = directory.rpartition("/drm/")
    return above if middle and above.startswith("/sys/devices/") and above != "/sys/devices/virtual" else directory


def _pair_minors(directories: list[str]) -> Iterator[tuple[str, ...]]:
    """Yield the minors of one carrier by device: the first card with the first render node, and so on."""
    cards, renders = ([minor for minor in directories if _is_render(minor) is render] for render in (False, True))
    for index in range(max(len(cards), len(renders))):
        yield (*cards[index : index + 1], *renders[index : index + 1])


def _is_render(directory: str) -> bool:
    return directory.rpartition("/")[2].startswith("renderD")


def _make_device(cache: LookCache, minors: tuple[str, ...], previous_devices: dict[str, HostDevice]) -> HostDevice:
    directory = minors[0]
    instance_id = " ".join(cache.root.read_instance_id(minor) for minor in minors)
    previous = previous_devices.get(directory)
    if previous and previous.instance_id == instance_id:
        return previous
    name = directory.rpartition("/")[2]
    location = f"{KIND}:{build_bus_path(cache, directory) or name}"
    return HostDevice(KIND, make_device_key(cache, directory), name, location, directory, "", instance_id)
