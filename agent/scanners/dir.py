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
from agent.core.language.glob_parts import Taken
from agent.core.language.value import Absent
from agent.host.root import Root, order
from agent.scanners.glob_files import expand, fits_path, fitting, is_glob, literal, taken
from agent.scanners.path_id import position, stem, told_apart
from agent.scanners.scanner import Found
from agent.scanners.subsystem_listing import GONE, key_of, same
from agent.scanners.word_table import LookCache, table

KIND = "dir"
DEFAULT_IDS: tuple[str, ...] = ()  # what lasts of a path only the entry knows
TABLE = table("dir")

_LISTS = re.compile(r"/sys/(?:class/([^/]+)|bus/([^/]+)/devices|(block))/")
_DRIVERS = re.compile(r"/sys/module/[^/]+/drivers/([^/:*?\[{]+):[^/]+/")

__all__ = ["DEFAULT_IDS", "KIND", "TABLE", "concerns", "device_at", "directories", "same", "scan"]


def scan(root: Root, source: Source, previous: Found, touched: DirtySet) -> Found:
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
    for path in sorted(paths, key=order):
        device = _see(sight, source, path, before)
        if isinstance(device, SkippedPath):
            oddities.append(device)
        elif device is not None:
            by_key.setdefault(device.key, device)
    for device in previous.devices:
        if blind and device.name.startswith(tuple(blind)):
            by_key.setdefault(device.key, device)
    now = Found(told_apart(sorted(by_key.values(), key=lambda each: order(each.name))), tuple(oddities))
    return previous if now == previous else now


def device_at(sight: LookCache, path: str, pattern: Glob | None) -> HostDevice | None:
    """A directory as a device, without a source that lists it; None if it is none of the kernel's.

    `pattern`, if there is one, takes words of as many of its last names as it has.
    """
    directory = sight.root.device(path) if path.startswith("/sys/") else sight.root.real(path)
    if isinstance(directory, Absent) or not directory.startswith(("/sys/", "/proc/")):
        return None
    stamp = sight.root.directory(directory)
    if not stamp:
        return None
    return HostDevice(
        KIND, key_of(sight, directory), path, f"{KIND}:{path}", directory, "", stamp, _captures(path, pattern)
    )


def _captures(path: str, pattern: Glob | None) -> Taken:
    if pattern is None:
        return ()
    names = path.split("/")[-len(pattern.text.split("/")) :]
    return pattern.take("/".join(names)) or ()


def concerns(source: Source, previous: Found, touched: DirtySet) -> bool:
    """See `Scanner.concerns`: an event of the class or bus that a pattern goes through, a path on the way or found."""
    if touched.everything:
        return True
    if any(_listening(glob, touched) for glob in source.arguments):
        return True
    begins = [literal(glob) for glob in source.arguments]
    if any(path.startswith(begin) or begin.startswith(f"{path}/") for begin in begins for path in touched.paths):
        return True
    return any(device.directory in touched.paths for device in previous.devices)


def directories(root: Root, source: Source, found: Found) -> frozenset[str]:
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
        return not names or any(map(fitting(first), names))
    return bool(deeper) and any(map(fitting(deeper[-1]), names))


def _see(sight: LookCache, source: Source, path: str, before: dict[str, HostDevice]) -> HostDevice | SkippedPath | None:
    root = sight.root
    directory = root.device(path) if path.startswith("/sys/") else root.real(path)
    if isinstance(directory, Absent):
        # What a glob once fitted and is no more is nothing odd; what was asked for by its name is.
        return SkippedPath(path, directory.reason) if path in source.arguments or directory.unreadable else None
    if not directory.startswith(("/sys/", "/proc/")):
        return SkippedPath(path, "leads out of /sys and /proc")
    stamp = root.directory(directory)
    if not stamp:
        there = root.exists(directory)
        return (
            SkippedPath(path, "is no directory" if there else GONE) if path in source.arguments or not there else None
        )
    old = before.get(path)
    if old and (old.stamp, old.directory) == (stamp, directory):
        return old
    sits = position(sight, directory)
    place = f"{sits}/{stem(directory.rpartition('/')[2])}" if sits else _words(source, path)
    captures = taken(source.arguments, path)
    return HostDevice(KIND, key_of(sight, directory), path, f"{KIND}:{place}", directory, "", stamp, captures)


def _words(source: Source, path: str) -> str:
    """The names of a path that a pattern leaves open."""
    names = path.split("/")[1:]
    for glob in source.arguments:
        if fits_path(glob, path):
            parts = glob.split("/")[1:]
            return "/".join(name for part, name in zip(parts, names, strict=True) if is_glob(part)) or path
    return path
