"""Dirty sets: what an event can have changed on the host, and which match results must be computed again.

Sources with `source.every` become dirty by a timer.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Sequence

from agent.core.entry.resource_spec import ResourceSpec, Source
from agent.core.struct import Struct


class DirtySet(Struct):
    """The possible changes of the host since the last look. `is_full_rescan` means everything.

    paths: canonical paths below /sys/devices or /dev, without the root prefix, and the keys of queries.
    subsystems: classes and buses of the kernel that may have a new device or one less.
    sources: sources whose devices can change without an event.
    keys: keys of such devices.
    """

    paths: frozenset[str] = frozenset()
    subsystems: frozenset[str] = frozenset()
    is_full_rescan: bool = False
    sources: frozenset[Source] = frozenset()
    keys: frozenset[str] = frozenset()

    def __or__(self, other: DirtySet) -> DirtySet:
        """Return the union."""
        return DirtySet(
            self.paths | other.paths,
            self.subsystems | other.subsystems,
            self.is_full_rescan or other.is_full_rescan,
            self.sources | other.sources,
            self.keys | other.keys,
        )

    def __bool__(self) -> bool:
        """Return whether anything is dirty."""
        return self.is_full_rescan or bool(self.paths or self.subsystems or self.sources or self.keys)

    @property
    def all_paths(self) -> frozenset[str]:
        """The paths, and the directories where the kernel lists the devices of the subsystems."""
        listed = (
            f"/sys/{directory}" for name in self.subsystems for directory in (f"class/{name}", f"bus/{name}/devices")
        )
        return self.paths.union(listed)

    def overlaps(self, paths: Iterable[str]) -> bool:
        """Return whether one of the paths is dirty, or is above or below a dirty path."""
        if self.is_full_rescan:
            return True
        dirty_paths = self.all_paths
        parents = {parent for dirty_path in dirty_paths for parent in _parents(dirty_path)}
        return any(
            path in dirty_paths or path in parents or any(parent in dirty_paths for parent in _parents(path))
            for path in paths
        )


ALL_DIRTY = DirtySet(is_full_rescan=True)


class PathIndex:
    """The paths that each match result was read from. The cost of an event then depends only on its changes.

    A path that ends in a slash is a directory with its entries. Looks pass the index on and only add to it. It can name
    a result that no longer depends on a path, but it never omits one. A full rescan begins a new index.

    watched_directories: directories that need a watch: those with a slash, and the parents of the other paths that are
        not below /sys or /proc.
    """

    def __init__(self) -> None:
        self.watched_directories: set[str] = set()
        self._keys: dict[str, set[str]] = {}
        self._sorted_paths: list[str] = []

    def add(self, key: str, paths: Iterable[str]) -> None:
        """Record that the match result of a key was read from these paths."""
        for path in paths:
            name = path.rstrip("/")
            if name and path != name:
                self.watched_directories.add(name)
            if name not in self._keys:
                self._keys[name] = set()
                if self._sorted_paths:
                    insort(self._sorted_paths, name)
                if path == name and not _has_kernel_events(name):
                    self.watched_directories.add(name.rpartition("/")[0] or "/")
            self._keys[name].add(key)

    def get_keys(self, path: str) -> frozenset[str]:
        """Return the keys of the match results that were read from a path, in this look or an earlier one."""
        return frozenset(self._keys.get(path, ()))

    def has_keys_below(self, path: str) -> bool:
        """Return whether a match result was read from a path below this one."""
        self._sorted_paths = self._sorted_paths or sorted(self._keys)
        start, stop = (bisect_left(self._sorted_paths, path + end) for end in "/0")
        return start < stop

    def find_dirty_keys(self, dirty_set: DirtySet) -> set[str]:
        """Return the keys of the match results that the dirty set affects (see `DirtySet.overlaps`)."""
        self._sorted_paths = self._sorted_paths or sorted(self._keys)
        keys: set[str] = set()
        for path in dirty_set.all_paths:
            for indexed_path in (path, *_parents(path)):
                keys |= self._keys.get(indexed_path, set())
            start, stop = (bisect_left(self._sorted_paths, path + end) for end in "/0")  # "0" comes after "/"
            keys.update(*(self._keys[indexed_path] for indexed_path in self._sorted_paths[start:stop]))
        return keys


def _has_kernel_events(path: str) -> bool:
    """Return whether a path needs no watch: the kernel sends events for it, or nothing does, or it is a query key."""
    return not path.startswith("/") or path in {"", "/dev"} or f"{path}/".startswith(("/sys/", "/proc/"))


def _parents(path: str) -> Iterator[str]:
    """Yield all directories above a path."""
    while path := path.rpartition("/")[0]:
        yield path


class SourceTimers:
    """The next time for each source that has an interval. If entries differ, the shorter interval counts."""

    def __init__(self) -> None:
        self._due_times: dict[Source, float] = {}

    @property
    def next_at(self) -> float:
        """The first due time in monotonic seconds, or infinity if there is none."""
        return min(self._due_times.values(), default=float("inf"))

    def take_due_sources(self, specs: Sequence[ResourceSpec], current_time: float) -> frozenset[Source]:
        """Return the sources that are due now, and set the next time of each."""
        intervals: dict[Source, float] = {}
        for spec in specs:
            for source, seconds in spec.source_intervals:
                intervals[source] = min(seconds, intervals.get(source, seconds))
        self._due_times = {
            source: min(self._due_times.get(source, current_time + time), current_time + time)
            for source, time in intervals.items()
        }
        due_sources = frozenset(source for source, due_time in self._due_times.items() if due_time <= current_time)
        self._due_times.update((source, current_time + intervals[source]) for source in due_sources)
        return due_sources
