"""Source `dir`: every directory below /sys or /proc that fits a glob.

One real directory is one host device, however many paths lead to it; the first in natural order names it. Below
/sys/class/X and /sys/bus/X the events of X say when to look again. /proc has no events: `every`, or the sweep.
"""

from __future__ import annotations

import re

from agent.core.entry.resource_spec import Source
from agent.core.inventory.device import HostDevice
from agent.core.inventory.dirty_set import DirtySet
from agent.core.inventory.listing import SkippedPath
from agent.core.language.glob import Glob
from agent.core.language.glob_parts import CapturedWords
from agent.core.language.value import Absent
from agent.host.root import Root, natural_key
from agent.scanners.glob_files import expand, extract_words, get_literal_prefix, is_glob, make_matcher, matches_path
from agent.scanners.path_id import build_bus_path, number_equal_locations, strip_numbers
from agent.scanners.scanner import SourceListing
from agent.scanners.subsystem_listing import DISAPPEARED_REASON, is_same_device, make_device_key
from agent.scanners.word_table import LookCache, make_table

KIND = "dir"
DEFAULT_IDS: tuple[str, ...] = ()  # what lasts of a path only the entry knows
TABLE = make_table("dir")

_LISTS = re.compile(r"/sys/(?:class/([^/]+)|bus/([^/]+)/devices|(block))/")
_DRIVERS = re.compile(r"/sys/module/[^/]+/drivers/([^/:*?\[{]+):[^/]+/")

__all__ = ["DEFAULT_IDS", "KIND", "TABLE", "is_affected", "is_same_device", "list_directories", "make_device", "scan"]


def scan(root: Root, source: Source, previous: SourceListing, touched: DirtySet) -> SourceListing:
    """See `Scanner.scan`; all patterns are gone through, whatever was touched."""
    del touched
    sight = LookCache(root)
    paths: dict[str, None] = {}
    blind: list[str] = []
    oddities: list[SkippedPath] = []
    for glob in source.arguments:
        fits = False
        for path in expand(root, "", tuple(glob.split("/")[1:])):
            if isinstance(path, str):
                fits = True
                paths[path] = None
            elif path[1].unreadable:
                fits = True
                blind.append(f"{path[0].rstrip('/')}/")
                oddities.append(SkippedPath(path[0], path[1].reason))
        if not fits and is_glob(glob):
            oddities.append(SkippedPath(glob, "nothing fits it"))
    before = {device.name: device for device in previous.devices}
    by_key: dict[str, HostDevice] = {}
    for path in sorted(paths, key=natural_key):
        device = _see(sight, source, path, before)
        if isinstance(device, SkippedPath):
            oddities.append(device)
        elif device is not None:
            by_key.setdefault(device.key, device)
    for device in previous.devices:
        if blind and device.name.startswith(tuple(blind)):
            by_key.setdefault(device.key, device)
    now = SourceListing(
        number_equal_locations(sorted(by_key.values(), key=lambda each: natural_key(each.name))), tuple(oddities)
    )
    return previous if now == previous else now


def make_device(sight: LookCache, path: str, pattern: Glob | None) -> HostDevice | None:
    """A directory as a device, without a source that lists it; None if it is none of the kernel's.

    `pattern`, if there is one, takes words of as many of its last names as it has.
    """
    directory = sight.root.resolve_device(path) if path.startswith("/sys/") else sight.root.resolve(path)
    if isinstance(directory, Absent) or not directory.startswith(("/sys/", "/proc/")):
        return None
    stamp = sight.root.read_directory_instance_id(directory)
    if not stamp:
        return None
    return HostDevice(
        KIND, make_device_key(sight, directory), path, f"{KIND}:{path}", directory, "", stamp, _captures(path, pattern)
    )


def _captures(path: str, pattern: Glob | None) -> CapturedWords:
    if pattern is None:
        return ()
    names = path.split("/")[-len(pattern.text.split("/")) :]
    return pattern.extract_words("/".join(names)) or ()


def is_affected(source: Source, previous: SourceListing, touched: DirtySet) -> bool:
    """See `Scanner.concerns`: an event of the class or bus that a pattern goes through, a path on the way or found."""
    if touched.everything:
        return True
    if any(_listening(glob, touched) for glob in source.arguments):
        return True
    begins = [get_literal_prefix(glob) for glob in source.arguments]
    if any(path.startswith(begin) or begin.startswith(f"{path}/") for begin in begins for path in touched.paths):
        return True
    return any(device.directory in touched.paths for device in previous.devices)


def list_directories(root: Root, source: Source, found: SourceListing) -> frozenset[str]:
    """Of a tree on disk where directories come and go: at each glob of a pattern."""
    del found
    if not root.prefix:
        return frozenset()
    result: set[str] = set()
    for glob in source.arguments:
        parts = tuple(glob.split("/")[1:])
        for index, part in enumerate(parts):
            if is_glob(part) or index == len(parts) - 1:
                result.update(way for way in expand(root, "", parts[:index]) if isinstance(way, str))
    return frozenset(result)


def _listening(glob: str, touched: DirtySet) -> bool:
    """Whether an event of a class or bus that the pattern goes through can mean that what fits came or went.

    The device of the event fits there by its name; or what is deeper down is a device too, of whatever subsystem.
    """
    found = _LISTS.match(glob) or _DRIVERS.match(glob)
    if not found:
        return False
    names = [path.rpartition("/")[2] for path in touched.paths if path.startswith("/sys/")]
    first, *deeper = glob[found.end() :].split("/")
    subsystem = next(group for group in found.groups() if group)
    if subsystem in touched.subsystems or (is_glob(subsystem) and touched.subsystems):
        return not names or any(map(make_matcher(first), names))
    return bool(deeper) and any(map(make_matcher(deeper[-1]), names))


def _see(sight: LookCache, source: Source, path: str, before: dict[str, HostDevice]) -> HostDevice | SkippedPath | None:
    root = sight.root
    directory = root.resolve_device(path) if path.startswith("/sys/") else root.resolve(path)
    if isinstance(directory, Absent):
        # What a glob once fitted and is no more is nothing odd; what was asked for by its name is.
        return SkippedPath(path, directory.reason) if path in source.arguments or directory.unreadable else None
    if not directory.startswith(("/sys/", "/proc/")):
        return SkippedPath(path, "leads out of /sys and /proc")
    stamp = root.read_directory_instance_id(directory)
    if not stamp:
        there = root.exists(directory)
        return (
            SkippedPath(path, "is no directory" if there else DISAPPEARED_REASON)
            if path in source.arguments or not there
            else None
        )
    old = before.get(path)
    if old and (old.stamp, old.directory) == (stamp, directory):
        return old
    sits = build_bus_path(sight, directory)
    place = f"{sits}/{strip_numbers(directory.rpartition('/')[2])}" if sits else _words(source, path)
    captures = extract_words(source.arguments, path)
    return HostDevice(KIND, make_device_key(sight, directory), path, f"{KIND}:{place}", directory, "", stamp, captures)


def _words(source: Source, path: str) -> str:
    """The names of a path that a pattern leaves open."""
    names = path.split("/")[1:]
    for glob in source.arguments:
        if matches_path(glob, path):
            parts = glob.split("/")[1:]
            return "/".join(name for part, name in zip(parts, names, strict=True) if is_glob(part)) or path
    return path
