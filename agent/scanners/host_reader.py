"""Reading facts of host devices: the edge behind `agent.core.inventory.inventory.Reader`."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Sequence
from functools import lru_cache
from typing import Any, TypeVar

from agent.core.entry.cdi import Specs
from agent.core.entry.query import ProbeSpec, Query, QueryResult
from agent.core.inventory.device import DeviceNode, HostDevice, MatchedPath
from agent.core.inventory.dirty_set import DirtySet
from agent.core.inventory.preconditions import is_gate
from agent.core.language.glob import Glob, find_literal_prefix
from agent.core.language.value import Absent, Scalar, Value, make_sort_key
from agent.host.cdi_specs import SpecDirectories
from agent.host.root import Root
from agent.scanners import dir, source_kinds  # noqa: A004  the kind's own name
from agent.scanners.glob_files import expand, is_glob
from agent.scanners.query_source import NO_AGENT, QuerySource
from agent.scanners.read_history import DeviceReads, LookReads, ReadKey, make_read_key
from agent.scanners.route_reader import RouteReader
from agent.scanners.word_route import TABLES, Route, parse_route
from agent.scanners.word_table import LookCache, WordSubject

T = TypeVar("T")

_FILE_LIMIT = 1024 * 1024  # bytes of a file that a person wrote
_FUNCTION = re.compile(r"(?<![0-9a-f])[0-9a-f]{4,8}:[0-9a-f]{2}:[01][0-9a-f]\.[0-7](?![0-9a-f])")


class HostReader:
    """Facts of one look: whatever is asked is read once, so that all entries judge by the same."""

    def __init__(self, root: Root, cdi: SpecDirectories | None = None, answers: QuerySource = NO_AGENT) -> None:
        """`cdi` is where runtimes look for CDI specs; their own default if it is not said."""
        self._root = root
        self._answers = answers
        self._cdi = cdi or SpecDirectories()
        self._specs: Specs | None = None
        self._found: dict[str, str | Absent] = {}  # CDI specs, by the name of a device
        self._fits: dict[str, tuple[MatchedPath, ...] | Absent] = {}
        self._sight = LookCache(root)
        self._following = RouteReader(self._sight)
        self._seen: dict[ReadKey, DeviceReads] = {}
        self._files: dict[str, str | Absent] = {}
        self._places: dict[str, set[str]] = {}

    def fact(self, device: HostDevice, word: str) -> Value | Absent:
        """What a word or path says of a device; both are known good since the configuration was loaded.

        Raises:
            UnknownWord: the load let a word through that the source does not have.
        """
        seen = self._of(device)
        found = seen.facts.get(word)
        if found is None:
            self._sight.paths = seen.places
            way = _route(device.source, word)
            if way.word is None or way.relations or way.is_list:
                found = self._following.read_value(seen.thing, way)
            else:
                found = way.word.read(self._sight, seen.thing)
            seen.facts[word] = found
        return found

    def things(self, device: HostDevice, word: str) -> tuple[HostDevice, ...] | Absent:
        """What a relation or a many leads to."""
        return self._once(device, ("things", word), self._things)

    def texts(self, device: HostDevice, path: str) -> Sequence[str | Absent] | Absent:
        """What each file says that fits a path."""
        return self._once(device, ("texts", path), self._texts)

    def names(self, device: HostDevice, path: str) -> Sequence[str] | Absent:
        """The names of what fits a path."""
        return self._once(device, ("names", path), self._names)

    def text(self, path: str) -> str | Absent:
        """What a file says, wherever it is."""
        if path not in self._files:
            data = self._root.read_head(path, _FILE_LIMIT)
            self._files[path] = data if isinstance(data, Absent) else data.decode(errors="replace")
        return self._files[path]

    def directories(self, device: HostDevice, path: str, pattern: Glob | None = None) -> Sequence[HostDevice] | Absent:
        """The directories that fit a path, as devices."""
        return self._once(device, ("directories", path, pattern), self._directories)

    def node(self, path: str) -> DeviceNode | Absent:
        """The device node that a path leads to."""
        return self._sight.find_node(path)

    def fits(self, pattern: str) -> tuple[MatchedPath, ...] | Absent:
        """What there is that fits a mount's pattern."""
        if pattern not in self._fits:
            self._fits[pattern] = self._mountable(pattern)
        return self._fits[pattern]

    def cdi(self, name: str) -> str | Absent:
        """The CDI spec that has a device of that name."""
        if name not in self._found:
            if self._specs is None:
                self._specs = self._cdi.read(self._root)
            self._found[name] = self._specs.find_file(name)
        return self._found[name]

    @property
    def cdi_directories(self) -> tuple[str, ...]:
        """Where CDI specs are looked for."""
        return self._cdi.directories

    def answer(self, device: HostDevice, inquiry: Query) -> QueryResult:
        """What is known of an inquiry about a device."""
        return self._once(device, ("answer", inquiry), self._answer)

    def reported(self, device: HostDevice, probe: ProbeSpec, field: str) -> Scalar | Absent:
        """What a probe reports of a device as a field."""
        return self._once(device, ("reported", probe, field), self._reported)

    def consulted(self, device: HostDevice) -> frozenset[str]:
        """The directories and nodes that this device's facts came from, so far."""
        return frozenset(self._of(device).places)

    @property
    def reads(self) -> LookReads:
        """All that was asked so far."""
        return LookReads(self._seen, self._sight.nodes, self._fits, self._files, self._found)

    def reread(self, looks: Iterable[LookReads], but: Container[tuple[str, str]]) -> DirtySet | None:
        """Ask all that again: what answers otherwise is touched. None if nothing tells whom that concerns.

        but: things that are touched without being asked, by their source and key.
        """
        keys: set[str] = set()
        paths: set[str] = set()
        for asked in looks:
            for (source, key, *_), seen in asked.devices.items():
                if (source, key) in but:
                    paths.update(seen.own_paths)
                elif not self._still(seen):
                    keys.add(key)
                    paths.update(seen.own_paths)
                    if not seen.own_paths and not is_gate(key):
                        return None
            paths.update(path for path, node in asked.nodes.items() if self.node(path) != node)
            paths.update(
                find_literal_prefix(pattern)[0] for pattern, fits in asked.fits.items() if self.fits(pattern) != fits
            )
            if any(self.cdi(name) != spec for name, spec in asked.specs.items()):
                paths.update(self.cdi_directories)
            if any(self.text(path) != text for path, text in asked.files.items()):
                return None
        return DirtySet(frozenset(paths), keys=frozenset(keys))

    def _still(self, seen: DeviceReads) -> bool:
        """Whether a thing answers as it did."""
        device = seen.device
        for word, said in seen.facts.items():
            now = self.fact(device, word)
            if now is not said and now != said:
                return False
        return all(getattr(self, what)(device, *of) == said for (what, *of), said in seen.asked.items())

    def _once(self, device: HostDevice, question: tuple[Any, ...], ask: Callable[..., T]) -> T:
        """The answer to a question about a device; `ask` is given what follows its first word."""
        asked = self._of(device).asked
        if question not in asked:
            asked[question] = ask(device, *question[1:])
        said: T = asked[question]
        return said

    def _things(self, device: HostDevice, word: str) -> tuple[HostDevice, ...] | Absent:
        found = self._following.follow_relations(*self._from(device, word))
        return found if isinstance(found, Absent) else tuple(map(_end, found))

    def _texts(self, device: HostDevice, path: str) -> Sequence[str | Absent] | Absent:
        found = self._fitting(device, path)
        return found if isinstance(found, Absent) else tuple(map(self._following.read_file, found))

    def _fitting(self, device: HostDevice, path: str) -> Sequence[str] | Absent:
        return self._following.list_paths(*self._from(device, path))

    def _from(self, device: HostDevice, written: str) -> tuple[WordSubject, Route]:
        """Where a way begins, and the way; what is read on it is for the device."""
        seen = self._of(device)
        self._sight.paths = seen.places
        return seen.thing, _route(device.source, written)

    def _names(self, device: HostDevice, path: str) -> Sequence[str] | Absent:
        found = self._fitting(device, path)
        if isinstance(found, Absent):
            return found
        last = found[:1] and not is_glob(path.rpartition("/")[2])
        return tuple(each.rpartition("/")[2] for each in found if not last or self._root.exists(each))

    def _directories(self, device: HostDevice, path: str, pattern: Glob | None) -> Sequence[HostDevice] | Absent:
        found = self._fitting(device, path)
        if isinstance(found, Absent):
            return found
        seen: dict[str, HostDevice] = {}
        for each in found:
            directory = dir.make_device(self._sight, each, pattern)
            if directory is not None:
                seen.setdefault(directory.key, directory)
        return tuple(seen.values())

    def _answer(self, device: HostDevice, inquiry: Query) -> QueryResult:
        if isinstance(inquiry, ProbeSpec):
            return self._answers.get_health(inquiry, self._places_of(device, inquiry))
        self._of(device).places.add(inquiry.dirty_key)
        return self._answers.get_result(inquiry)

    def _reported(self, device: HostDevice, probe: ProbeSpec, field: str) -> Scalar | Absent:
        return self._answers.get_field(probe, self._places_of(device, probe), field)

    def _places_of(self, device: HostDevice, probe: ProbeSpec) -> tuple[str, ...]:
        """The names by which a probe may speak of a device; its facts rest on what that says of these."""
        names = get_device_names(device)
        self._of(device).places.update(map(probe.make_dirty_key, names))
        return names

    def _mountable(self, pattern: str) -> tuple[MatchedPath, ...] | Absent:
        found: list[MatchedPath] = []
        why = Absent("nothing fits" if is_glob(pattern) else "no such file")
        for path in sorted(
            expand(self._root, "", tuple(pattern[1:].split("/"))),
            key=lambda path: make_sort_key(path if isinstance(path, str) else path[0]),
        ):
            real = path[1] if isinstance(path, tuple) else self._root.resolve(path)
            if isinstance(real, Absent):
                why = real
            else:
                found.append(MatchedPath(str(path), real))
        return tuple(found) or why

    def _of(self, device: HostDevice) -> DeviceReads:
        mark = make_read_key(device)
        seen = self._seen.get(mark)
        if seen is None:
            seen = self._seen[mark] = DeviceReads(device, self._places.setdefault(device.key, set()))
        return seen


def get_device_names(device: HostDevice) -> tuple[str, ...]:
    """The names of a device: as `scan` calls it, its node, its directory, its place, and its PCI function."""
    function = _FUNCTION.findall(device.directory) or _FUNCTION.findall(device.name)
    names = (device.name, device.node, device.directory, device.place, *function[-1:])
    return tuple(dict.fromkeys(filter(None, names)))


def is_in_memory(device: HostDevice, word: str) -> bool:
    """Whether a fact is told by names below /dev alone; these are in memory, while sysfs may wait for the hardware."""
    way = _route(device.source, word)
    return bool(device.node) and not way.relations and way.word is not None and way.word.is_in_memory


@lru_cache(maxsize=16384)
def _route(kind: str, written: str) -> Route:
    """The way of a word for a kind of source, or for the end of a relation that has a table by that name."""
    return parse_route(source_kinds.KINDS[kind].TABLE if kind in source_kinds.KINDS else TABLES[kind], written)


def _end(thing: WordSubject) -> HostDevice:
    key = thing.directory or thing.node
    return HostDevice(thing.table, f"{thing.table}:{key}", thing.name, key, thing.directory, thing.node)
