"""Reader of facts of host devices: the implementation of `agent.core.inventory.facts.Reader`."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Sequence
from functools import lru_cache
from typing import Any, TypeVar

from agent.core.entry.cdi import Specs
from agent.core.entry.query import ProbeSpec, Query, QueryResult
from agent.core.inventory.device import DeviceNode, HostDevice, MatchedPath
from agent.core.inventory.dirty_set import DirtySet
from agent.core.inventory.preconditions import is_precondition_key
from agent.core.language.glob import Glob, find_literal_prefix
from agent.core.language.value import Absent, Scalar, Value, make_sort_key
from agent.core.struct import Struct, field
from agent.host.cdi_specs import SpecDirectories
from agent.host.root import Root
from agent.scanners import dir, source_kinds  # noqa: A004  the name of the source kind
from agent.scanners.glob_files import expand, is_glob
from agent.scanners.query_source import NO_AGENT, QuerySource
from agent.scanners.read_history import DeviceReads, LookReads, ReadKey, make_read_key
from agent.scanners.route_reader import RouteReader
from agent.scanners.word_route import TABLES, Route, parse_route
from agent.scanners.word_table import LookCache, WordSubject

T = TypeVar("T")

_FILE_LIMIT = 1024 * 1024  # bytes of a file that an administrator wrote
_PCI_FUNCTION = re.compile(r"(?<![0-9a-f])[0-9a-f]{4,8}:[0-9a-f]{2}:[01][0-9a-f]\.[0-7](?![0-9a-f])")


class HostView(Struct):
    """The host as the agent can read it.

    root: the host, or a tree in its place. cdi: the directories of CDI specs. The default is that of the runtimes.
    queries: the results of programs, services and probes.
    """

    root: Root
    cdi: SpecDirectories = field(default_factory=SpecDirectories)
    queries: QuerySource = NO_AGENT


class HostReader:
    """Facts of one look. Each fact is read once, so that all entries match the same values."""

    def __init__(self, host: HostView) -> None:
        """Create the reader of one look."""
        self._root, self._cdi, self._queries = host.root, host.cdi, host.queries
        self._specs: Specs | None = None
        self._cdi_results: dict[str, str | Absent] = {}  # CDI specs, by device name
        self._fits: dict[str, tuple[MatchedPath, ...] | Absent] = {}
        self._cache = LookCache(host.root)
        self._route_reader = RouteReader(self._cache)
        self._devices: dict[ReadKey, DeviceReads] = {}
        self._files: dict[str, str | Absent] = {}
        self._paths_by_key: dict[str, set[str]] = {}

    def read_fact(self, device: HostDevice, word: str) -> Value | Absent:
        """Return the value of a word or path of a device. The configuration has checked both.

        Raises:
            UnknownWordError: the configuration accepted a word that the source does not have.
        """
        reads = self._get_device_reads(device)
        value = reads.facts.get(word)
        if value is None:
            self._cache.paths = reads.paths
            route = _find_route(device.source, word)
            if route.word is None or route.relations or route.is_list:
                value = self._route_reader.read_value(reads.subject, route)
            else:
                value = route.word.read(self._cache, reads.subject)
            reads.facts[word] = value
        return value

    def find_related_devices(self, device: HostDevice, word: str) -> tuple[HostDevice, ...] | Absent:
        """Return the ends of a relation."""
        return self._get_or_read(device, ("find_related_devices", word), self._follow_relation)

    def read_texts(self, device: HostDevice, path: str) -> Sequence[str | Absent] | Absent:
        """Return the text of each file that matches a path."""
        return self._get_or_read(device, ("read_texts", path), self._read_texts)

    def list_names(self, device: HostDevice, path: str) -> Sequence[str] | Absent:
        """Return the names of the files that match a path."""
        return self._get_or_read(device, ("list_names", path), self._list_names)

    def read_text(self, path: str) -> str | Absent:
        """Return the text of a file, wherever it is."""
        if path not in self._files:
            data = self._root.read_head(path, _FILE_LIMIT)
            self._files[path] = data if isinstance(data, Absent) else data.decode(errors="replace")
        return self._files[path]

    def list_directories(
        self, device: HostDevice, path: str, pattern: Glob | None = None
    ) -> Sequence[HostDevice] | Absent:
        """Return the directories that match a path, as devices."""
        return self._get_or_read(device, ("list_directories", path, pattern), self._make_directory_devices)

    def find_node(self, path: str) -> DeviceNode | Absent:
        """Return the device node that a path leads to."""
        return self._cache.find_node(path)

    def find_paths(self, pattern: str) -> tuple[MatchedPath, ...] | Absent:
        """Return the paths that match the pattern of a mount."""
        if pattern not in self._fits:
            self._fits[pattern] = self._match_paths(pattern)
        return self._fits[pattern]

    def find_cdi_spec(self, name: str) -> str | Absent:
        """Return the path of the CDI spec that has a device of this name."""
        if name not in self._cdi_results:
            if self._specs is None:
                self._specs = self._cdi.read(self._root)
            self._cdi_results[name] = self._specs.find_file(name)
        return self._cdi_results[name]

    @property
    def cdi_directories(self) -> tuple[str, ...]:
        """The directories of CDI specs."""
        return self._cdi.directories

    def get_query_result(self, device: HostDevice, query: Query) -> QueryResult:
        """Return the result of a query about a device."""
        return self._get_or_read(device, ("get_query_result", query), self._get_query_result)

    def get_probe_field(self, device: HostDevice, probe: ProbeSpec, field: str) -> Scalar | Absent:
        """Return the value of a field that a probe reports of a device."""
        return self._get_or_read(device, ("get_probe_field", probe, field), self._get_probe_field)

    def get_read_paths(self, device: HostDevice) -> frozenset[str]:
        """Return the directories and nodes that the facts of this device come from, so far."""
        return frozenset(self._get_device_reads(device).paths)

    @property
    def reads(self) -> LookReads:
        """Everything that was read so far."""
        return LookReads(self._devices, self._cache.nodes, self._fits, self._files, self._cdi_results)

    def reread(self, looks: Iterable[LookReads], changed_keys: Container[tuple[str, str]]) -> DirtySet | None:
        """Read everything again and return what differs as dirty set, or None if a difference belongs to no path or
        device.

        changed_keys: source and key of devices that are dirty anyway.
        """
        keys: set[str] = set()
        paths: set[str] = set()
        for look in looks:
            for (source, key, *_), reads in look.devices.items():
                if (source, key) in changed_keys:
                    paths.update(reads.own_paths)
                elif not self._is_unchanged(reads):
                    keys.add(key)
                    paths.update(reads.own_paths)
                    if not reads.own_paths and not is_precondition_key(key):
                        return None
            paths.update(path for path, node in look.nodes.items() if self.find_node(path) != node)
            paths.update(
                find_literal_prefix(pattern)[0]
                for pattern, fits in look.fits.items()
                if self.find_paths(pattern) != fits
            )
            if any(self.find_cdi_spec(name) != spec for name, spec in look.specs.items()):
                paths.update(self.cdi_directories)
            if any(self.read_text(path) != text for path, text in look.files.items()):
                return None
        return DirtySet(frozenset(paths), keys=frozenset(keys))

    def _is_unchanged(self, reads: DeviceReads) -> bool:
        """Return whether all answers of a device are the same as before."""
        device = reads.device
        for word, previous in reads.facts.items():
            current = self.read_fact(device, word)
            if current is not previous and current != previous:
                return False
        return all(
            getattr(self, method)(device, *arguments) == previous
            for (method, *arguments), previous in reads.answers.items()
        )

    def _get_or_read(self, device: HostDevice, question: tuple[Any, ...], ask: Callable[..., T]) -> T:
        """Return the answer to a question about a device.

        `ask` gets the arguments after the first word of the question.
        """
        answers = self._get_device_reads(device).answers
        if question not in answers:
            answers[question] = ask(device, *question[1:])
        answer: T = answers[question]
        return answer

    def _follow_relation(self, device: HostDevice, word: str) -> tuple[HostDevice, ...] | Absent:
        subjects = self._route_reader.follow_relations(*self._start_route(device, word))
        return subjects if isinstance(subjects, Absent) else tuple(map(_make_end_device, subjects))

    def _read_texts(self, device: HostDevice, path: str) -> Sequence[str | Absent] | Absent:
        paths = self._list_paths(device, path)
        return paths if isinstance(paths, Absent) else tuple(map(self._route_reader.read_file, paths))

    def _list_paths(self, device: HostDevice, path: str) -> Sequence[str] | Absent:
        return self._route_reader.list_paths(*self._start_route(device, path))

    def _start_route(self, device: HostDevice, written: str) -> tuple[WordSubject, Route]:
        """Return the subject of a device and the route of a word.

        Paths that are read on the route count for the device.
        """
        reads = self._get_device_reads(device)
        self._cache.paths = reads.paths
        return reads.subject, _find_route(device.source, written)

    def _list_names(self, device: HostDevice, path: str) -> Sequence[str] | Absent:
        paths = self._list_paths(device, path)
        if isinstance(paths, Absent):
            return paths
        is_single = paths[:1] and not is_glob(path.rpartition("/")[2])
        return tuple(
            matched_path.rpartition("/")[2]
            for matched_path in paths
            if not is_single or self._root.exists(matched_path)
        )

    def _make_directory_devices(
        self, device: HostDevice, path: str, pattern: Glob | None
    ) -> Sequence[HostDevice] | Absent:
        paths = self._list_paths(device, path)
        if isinstance(paths, Absent):
            return paths
        devices: dict[str, HostDevice] = {}
        for path_here in paths:
            directory = dir.make_device(self._cache, path_here, pattern)
            if directory is not None:
                devices.setdefault(directory.key, directory)
        return tuple(devices.values())

    def _get_query_result(self, device: HostDevice, query: Query) -> QueryResult:
        if isinstance(query, ProbeSpec):
            return self._queries.get_health(query, self._list_probe_names(device, query))
        self._get_device_reads(device).paths.add(query.dirty_key)
        return self._queries.get_result(query)

    def _get_probe_field(self, device: HostDevice, probe: ProbeSpec, field: str) -> Scalar | Absent:
        return self._queries.get_field(probe, self._list_probe_names(device, probe), field)

    def _list_probe_names(self, device: HostDevice, probe: ProbeSpec) -> tuple[str, ...]:
        """Return the names that a probe may use for a device. Its facts depend on the reports of these names."""
        names = get_device_names(device)
        self._get_device_reads(device).paths.update(map(probe.make_dirty_key, names))
        return names

    def _match_paths(self, pattern: str) -> tuple[MatchedPath, ...] | Absent:
        matches: list[MatchedPath] = []
        reason = Absent("nothing fits" if is_glob(pattern) else "no such file")
        for path in sorted(
            expand(self._root, "", tuple(pattern[1:].split("/"))),
            key=lambda path: make_sort_key(path if isinstance(path, str) else path[0]),
        ):
            real_path = path[1] if isinstance(path, tuple) else self._root.resolve(path)
            if isinstance(real_path, Absent):
                reason = real_path
            else:
                matches.append(MatchedPath(str(path), real_path))
        return tuple(matches) or reason

    def _get_device_reads(self, device: HostDevice) -> DeviceReads:
        key = make_read_key(device)
        reads = self._devices.get(key)
        if reads is None:
            reads = self._devices[key] = DeviceReads(device, self._paths_by_key.setdefault(device.key, set()))
        return reads


def get_device_names(device: HostDevice) -> tuple[str, ...]:
    """Return the names of a device: its name in `scan`, its node, its directory, its location and its PCI function."""
    function = _PCI_FUNCTION.findall(device.directory) or _PCI_FUNCTION.findall(device.name)
    names = (device.name, device.node, device.directory, device.location, *function[-1:])
    return tuple(dict.fromkeys(filter(None, names)))


def is_in_memory(device: HostDevice, word: str) -> bool:
    """Return whether a fact needs only names below /dev. These are in memory, while sysfs may wait for the hardware."""
    route = _find_route(device.source, word)
    return bool(device.node) and not route.relations and route.word is not None and route.word.is_in_memory


@lru_cache(maxsize=16384)
def _find_route(kind: str, written: str) -> Route:
    """Return the route of a word, for a source kind or for the table of a relation's end."""
    return parse_route(source_kinds.KINDS[kind].TABLE if kind in source_kinds.KINDS else TABLES[kind], written)


def _make_end_device(subject: WordSubject) -> HostDevice:
    key = subject.directory or subject.node
    return HostDevice(subject.table, f"{subject.table}:{key}", subject.name, key, subject.directory, subject.node)
