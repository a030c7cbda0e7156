"""What looks have asked of the host, with the answers. A sweep asks all of it again; what answers otherwise is touched.

So a sweep costs what reading costs, and is judged like an event.
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

_RESCAN_LIMIT = 20  # after so many, everything is looked at anew: what is asked for nobody any more is forgotten
_EVENT_READS = 4096  # that events asked about, and ...
_EVENT_READS_FACTOR = 4  # ... so often as many as the sweep before them did: more is not remembered


def make_read_key(device: HostDevice) -> ReadKey:
    """What a thing is remembered under: all that an answer may depend on. A key alone has now this thing, now that."""
    return device.source, device.key, device.directory, device.node, device.name, device.location


class DeviceReads:
    """What one look asked of one thing.

    facts: by word. asked: the answers to all else, by the reader's method and its arguments.
    places: what that came from.
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
        """Where the thing itself is."""
        device = self.device
        if not device.node:
            return (device.directory,) if device.directory else ()
        return tuple(filter(None, (device.directory, device.node, device.real_node)))


class LookReads(Struct):
    """What one look asked, of things and of what stands on the host."""

    devices: Mapping[ReadKey, DeviceReads] = field(default_factory=dict)
    nodes: Mapping[str, DeviceNode | Absent] = field(default_factory=dict)
    fits: Mapping[str, tuple[MatchedPath, ...] | Absent] = field(default_factory=dict)
    files: Mapping[str, str | Absent] = field(default_factory=dict)
    specs: Mapping[str, str | Absent] = field(default_factory=dict)


class ReadHistory(Struct):
    """What all looks have asked since the last sweep, for the entries of which they were.

    sweeps: how many there were since everything was looked at anew. more: things that events asked about.
    """

    entries: tuple[ResourceSpec, ...]
    looks: tuple[LookReads, ...]
    rescans: int = 0
    event_reads: int = 0

    def is_valid_for(self, entries: Sequence[ResourceSpec]) -> bool:
        """Whether the next sweep, for these entries, can go by it."""
        has_same_entries = len(entries) == len(self.entries) and all(map(is_, entries, self.entries))
        return has_same_entries and self.rescans < _RESCAN_LIMIT

    def add_look(self, look: LookReads) -> ReadHistory | None:
        """With what one more look asked; None if that becomes too much to remember until the next sweep."""
        event_reads = self.event_reads + len(look.devices)
        if event_reads > max(_EVENT_READS, _EVENT_READS_FACTOR * len(self.looks[0].devices)):
            return None
        return ReadHistory(self.entries, (*self.looks, look), self.rescans, event_reads)
