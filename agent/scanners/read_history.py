"""The history of reads: all questions of earlier looks to the host, with the answers.

A full rescan asks all of them again, and a different answer is dirty. So a full rescan costs the reading only, and its
changes are handled like an event.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import is_
from typing import Any, TypeAlias

from agent.core.entry.resource_spec import ResourceSpec
from agent.core.inventory.device import DeviceNode, HostDevice, MatchedPath
from agent.core.language.value import Absent, Value
from agent.core.struct import Struct, field
from agent.scanners.word_table import WordSubject

ReadKey: TypeAlias = tuple[str, str, str, str, str, str]

_RESCAN_LIMIT = 20  # then everything is matched again, which removes reads that no entry needs
_EVENT_READS = 4096  # devices read after events. More is not stored, unless it is below ...
_EVENT_READS_FACTOR = 4  # ... this many times the devices of the last full rescan


def make_read_key(device: HostDevice) -> ReadKey:
    """Return the key of the reads of a device: all values that an answer may depend on.

    A device key alone is not enough: it can mean different devices at different times.
    """
    return device.source, device.key, device.directory, device.node, device.name, device.location


class DeviceReads:
    """The reads of one device in one look.

    facts: by word.
    answers: all other answers, by the method of the reader and its arguments.
    paths: the paths that they come from.
    """

    __slots__ = ("answers", "device", "facts", "paths", "subject")

    def __init__(self, device: HostDevice, paths: set[str]) -> None:
        self.facts: dict[str, Value | Absent] = {}
        self.answers: dict[tuple[Any, ...], Any] = {}
        self.device = device
        self.subject = WordSubject(device.source, device.name.rpartition("/")[2], device.directory, device.node)
        self.paths = paths
        paths.update(self.own_paths)

    @property
    def own_paths(self) -> tuple[str, ...]:
        """The paths of the device itself."""
        device = self.device
        if not device.node:
            return (device.directory,) if device.directory else ()
        return tuple(filter(None, (device.directory, device.node, device.real_node)))


class LookReads(Struct):
    """The reads of one look, of devices and of other paths of the host."""

    devices: Mapping[ReadKey, DeviceReads] = field(default_factory=dict)
    nodes: Mapping[str, DeviceNode | Absent] = field(default_factory=dict)
    fits: Mapping[str, tuple[MatchedPath, ...] | Absent] = field(default_factory=dict)
    files: Mapping[str, str | Absent] = field(default_factory=dict)
    specs: Mapping[str, str | Absent] = field(default_factory=dict)


class ReadHistory(Struct):
    """The reads of all looks since the last full rescan, with their entries.

    rescans: how many full rescans there were since everything was matched.
    event_reads: how many devices were read after events.
    """

    entries: tuple[ResourceSpec, ...]
    looks: tuple[LookReads, ...]
    rescans: int = 0
    event_reads: int = 0

    def is_valid_for(self, entries: Sequence[ResourceSpec]) -> bool:
        """Return whether the next full rescan of these entries can use the history."""
        has_same_entries = len(entries) == len(self.entries) and all(map(is_, entries, self.entries))
        return has_same_entries and self.rescans < _RESCAN_LIMIT

    def add_look(self, look: LookReads) -> ReadHistory | None:
        """Return the history with the reads of one more look, or None if it becomes too large."""
        event_reads = self.event_reads + len(look.devices)
        if event_reads > max(_EVENT_READS, _EVENT_READS_FACTOR * len(self.looks[0].devices)):
            return None
        return ReadHistory(self.entries, (*self.looks, look), self.rescans, event_reads)
