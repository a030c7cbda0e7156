"""What an event may have changed on the host, and which sightings rest on that."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator

from agent.core.entry.resource_spec import Source
from agent.core.struct import Struct


class DirtySet(Struct):
    """What an event may have changed; `everything` is the sweep.

    paths: canonical, below /sys/devices or /dev, without the root prefix; marks of inquiries are among them.
    subsystems: classes and buses of the kernel that may have gained or lost a device.
    sources: those whose devices may have changed without any event. keys: such devices.
    """

    paths: frozenset[str] = frozenset()
    subsystems: frozenset[str] = frozenset()
    is_full_rescan: bool = False
    sources: frozenset[Source] = frozenset()
    keys: frozenset[str] = frozenset()

    def __or__(self, other: DirtySet) -> DirtySet:
        """Both together."""
        return DirtySet(
            self.paths | other.paths,
            self.subsystems | other.subsystems,
            self.is_full_rescan or other.is_full_rescan,
            self.sources | other.sources,
            self.keys | other.keys,
        )

    def __bool__(self) -> bool:
        """Whether anything is touched at all."""
        return self.is_full_rescan or bool(self.paths or self.subsystems or self.sources or self.keys)

    @property
    def all_paths(self) -> frozenset[str]:
        """The paths, and where the kernel lists the devices of the subsystems."""
        listed = (
            f"/sys/{directory}" for name in self.subsystems for directory in (f"class/{name}", f"bus/{name}/devices")
        )
        return self.paths.union(listed)

    def overlaps(self, paths: Iterable[str]) -> bool:
        """Whether one of the places is a touched one, lies above one or below one."""
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
    """Which sightings rest on which places, so that an event costs what it touches and not what there is.

    A place that ends in a slash is a directory with all that is in it.

    Handed on from look to look and only added to: it may name a sighting that no longer rests on a place, and never
    leaves one out. A look at everything begins a new one.

    directories: what is to be watched for them: those, and where the others lie that are not below /sys or /proc.
    """

    def __init__(self) -> None:
        self.watched_directories: set[str] = set()
        self._keys: dict[str, set[str]] = {}
        self._sorted_paths: list[str] = []

    def add(self, key: str, paths: Iterable[str]) -> None:
        """The sighting of that key rests on these places."""
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
        """The sightings that rest on a place, or did in an earlier look."""
        return frozenset(self._keys.get(path, ()))

    def has_keys_below(self, path: str) -> bool:
        """Whether a sighting rests on what is below a place."""
        self._sorted_paths = self._sorted_paths or sorted(self._keys)
        start, stop = (bisect_left(self._sorted_paths, path + end) for end in "/0")
        return start < stop

    def find_dirty_keys(self, dirty_set: DirtySet) -> set[str]:
        """The sightings that `touched` concerns (see `Touched.concerns`)."""
        self._sorted_paths = self._sorted_paths or sorted(self._keys)
        keys: set[str] = set()
        for path in dirty_set.all_paths:
            for indexed_path in (path, *_parents(path)):
                keys |= self._keys.get(indexed_path, set())
            start, stop = (bisect_left(self._sorted_paths, path + end) for end in "/0")  # "0" comes after "/"
            keys.update(*(self._keys[indexed_path] for indexed_path in self._sorted_paths[start:stop]))
        return keys


def _has_kernel_events(path: str) -> bool:
    """Whether the kernel's events tell of what happens to a place, or nothing does; or it is an inquiry."""
    return not path.startswith("/") or path in {"", "/dev"} or f"{path}/".startswith(("/sys/", "/proc/"))


def _parents(path: str) -> Iterator[str]:
    """Everything that lies above a path."""
    while path := path.rpartition("/")[0]:
        yield path
