"""The listing: all host devices of all sources at one time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from agent.core.changes import find_changed_objects, find_changes
from agent.core.entry.resource_spec import Source
from agent.core.inventory.device import HostDevice
from agent.core.struct import Struct, field


class Listing(Struct):
    """All host devices by source, and the paths that look like a device and are none or cannot be read.

    watched_directories: directories that can change without a kernel event.
    """

    devices: Mapping[Source, tuple[HostDevice, ...]] = field(default_factory=dict)
    skipped_paths: Mapping[Source, tuple[SkippedPath, ...]] = field(default_factory=dict)
    watched_directories: Mapping[Source, frozenset[str]] = field(default_factory=dict)


class SkippedPath(Struct):
    """A path that matched a source and is no host device, and why.

    is_source_failure: the source itself cannot be read.
    is_alias: the path is another name of a device that the source found.
    """

    path: str
    reason: str
    is_source_failure: bool = False
    is_alias: bool = False


def find_changed_devices(previous: Listing, current: Listing) -> Iterator[HostDevice]:
    """Yield the devices that are in one listing and are not the same object in the other."""
    for old_devices, new_devices in find_changes(previous.devices, current.devices).values():
        for devices in find_changed_objects(old_devices or (), new_devices or ()):
            yield from devices
