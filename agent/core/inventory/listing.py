"""What is on the host, as its sources list it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from agent.core.entry.resource_spec import Source
from agent.core.inventory.device import HostDevice
from agent.core.inventory.sequence_diff import trim_common_ends
from agent.core.struct import Struct, field


class Listing(Struct):
    """What is on the host, per source; and what looked like a device but is none, or could not be read.

    directories: where it may change without an event of the kernel's.
    """

    devices: Mapping[Source, tuple[HostDevice, ...]] = field(default_factory=dict)
    skipped_paths: Mapping[Source, tuple[SkippedPath, ...]] = field(default_factory=dict)
    watched_directories: Mapping[Source, frozenset[str]] = field(default_factory=dict)


class SkippedPath(Struct):
    """Something a source came across and did not take for a host device: a path, and why.

    failed: that is the source itself, which cannot be looked at.
    is_alias: the path is another name of a device that the source found.
    """

    path: str
    reason: str
    is_source_failure: bool = False
    is_alias: bool = False


def find_changed_devices(previous: Listing, current: Listing) -> Iterator[HostDevice]:
    """What is in one listing and not, as the same object, in the other."""
    for source in {**previous.devices, **current.devices}:
        old_devices, new_devices = previous.devices.get(source, ()), current.devices.get(source, ())
        if old_devices is not new_devices:
            removed, added = trim_common_ends(old_devices, new_devices)
            changed_ids = set(map(id, removed)) ^ set(map(id, added))
            yield from (device for device in (*removed, *added) if id(device) in changed_ids)
