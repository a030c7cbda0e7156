"""Source `dir`: every directory below /sys or /proc that matches a glob.

One real directory is one host device, also if several paths lead to it. The first path in natural order is its name.
For paths below /sys/class/X and /sys/bus/X, events of X trigger a new scan. /proc has no events: it is scanned with
`every` or the full rescan.
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
DEFAULT_IDS: tuple[str, ...] = ()  # only the entry knows the stable part of a path
TABLE = make_table("dir")

_LISTS = re.compile(r"/sys/(?:class/([^/]+)|bus/([^/]+)/devices|(block))/")
_DRIVERS = re.compile(r"/sys/module/[^/]+/drivers/([^/:*?\[{]+):[^/]+/")

__all__ = ["DEFAULT_IDS", "KIND", "TABLE", "is_affected", "is_same_device", "list_directories", "make_device", "scan"]


def scan(root: Root, source: Source, previous: SourceListing, dirty_set: DirtySet) -> SourceListing:
    """See `Scanner.scan`. All globs are expanded, whatever is dirty."""
    del dirty_set
    cache = LookCache(root)
    paths: dict[str, None] = {}
    unreadable_prefixes: list[str] = []
    skipped_paths: list[SkippedPath] = []
    for glob in source.arguments:
        has_match = False
        for path in expand(root, "", tuple(glob.split("/")[1:])):
            if isinstance(path, str):
                has_match = True
                paths[path] = None
            elif path[1].unreadable:
                has_match = True
                unreadable_prefixes.append(f"{path[0].rstrip('/')}/")
                skipped_paths.append(SkippedPath(path[0], path[1].reason))
        if not has_match and is_glob(glob):
            skipped_paths.append(SkippedPath(glob, "nothing fits it"))
    previous_devices = {device.name: device for device in previous.devices}
    by_key: dict[str, HostDevice] = {}
    for path in sorted(paths, key=natural_key):
        device = _make_listed_device(cache, source, path, previous_devices)
        if isinstance(device, SkippedPath):
            skipped_paths.append(device)
        elif device is not None:
            by_key.setdefault(device.key, device)
    for device in previous.devices:
        if unreadable_prefixes and device.name.startswith(tuple(unreadable_prefixes)):
            by_key.setdefault(device.key, device)
    current = SourceListing(
        number_equal_locations(sorted(by_key.values(), key=lambda listed_device: natural_key(listed_device.name))),
        tuple(skipped_paths),
    )
    return previous if current == previous else current


def make_device(cache: LookCache, path: str, pattern: Glob | None) -> HostDevice | None:
    """Return a directory as a device that no source lists, or None if it is no directory of the kernel.

    pattern: extracts words from as many of the last names as it has.
    """
    directory = cache.root.resolve_device(path) if path.startswith("/sys/") else cache.root.resolve(path)
    if isinstance(directory, Absent) or not directory.startswith(("/sys/", "/proc/")):
        return None
    instance_id = cache.root.read_directory_instance_id(directory)
    if not instance_id:
        return None
    return HostDevice(
        KIND,
        make_device_key(cache, directory),
        path,
        f"{KIND}:{path}",
        directory,
        "",
        instance_id,
        _extract_captures(path, pattern),
    )


def _extract_captures(path: str, pattern: Glob | None) -> CapturedWords:
    if pattern is None:
        return ()
    names = path.split("/")[-len(pattern.text.split("/")) :]
    return pattern.extract_words("/".join(names)) or ()


def is_affected(source: Source, previous: SourceListing, dirty_set: DirtySet) -> bool:
    """See `Scanner.is_affected`.

    True after an event of the class or bus in a glob, or a change on the path or of a device.
    """
    if dirty_set.is_full_rescan:
        return True
    if any(_is_event_relevant(glob, dirty_set) for glob in source.arguments):
        return True
    prefixes = [get_literal_prefix(glob) for glob in source.arguments]
    if any(path.startswith(prefix) or prefix.startswith(f"{path}/") for prefix in prefixes for path in dirty_set.paths):
        return True
    return any(device.directory in dirty_set.paths for device in previous.devices)


def list_directories(root: Root, source: Source, listing: SourceListing) -> frozenset[str]:
    """Return the directories where devices can appear, at each wildcard of a glob.

    Empty for the real host, which sends events.
    """
    del listing
    if not root.prefix:
        return frozenset()
    result: set[str] = set()
    for glob in source.arguments:
        parts = tuple(glob.split("/")[1:])
        for index, part in enumerate(parts):
            if is_glob(part) or index == len(parts) - 1:
                result.update(path for path in expand(root, "", parts[:index]) if isinstance(path, str))
    return frozenset(result)


def _is_event_relevant(glob: str, dirty_set: DirtySet) -> bool:
    """Return whether an event of the class or bus in the glob can mean that a match was added or removed.

    Either the name of the event's device matches there, or a deeper match is itself a device of any subsystem.
    """
    match = _LISTS.match(glob) or _DRIVERS.match(glob)
    if not match:
        return False
    names = [path.rpartition("/")[2] for path in dirty_set.paths if path.startswith("/sys/")]
    first_component, *deeper_components = glob[match.end() :].split("/")
    subsystem = next(group for group in match.groups() if group)
    if subsystem in dirty_set.subsystems or (is_glob(subsystem) and dirty_set.subsystems):
        return not names or any(map(make_matcher(first_component), names))
    return bool(deeper_components) and any(map(make_matcher(deeper_components[-1]), names))


def _make_listed_device(
    cache: LookCache, source: Source, path: str, previous_devices: dict[str, HostDevice]
) -> HostDevice | SkippedPath | None:
    root = cache.root
    directory = root.resolve_device(path) if path.startswith("/sys/") else root.resolve(path)
    if isinstance(directory, Absent):
        # A former match of a glob may be missing. A path that is named in full may not.
        return SkippedPath(path, directory.reason) if path in source.arguments or directory.unreadable else None
    if not directory.startswith(("/sys/", "/proc/")):
        return SkippedPath(path, "leads out of /sys and /proc")
    instance_id = root.read_directory_instance_id(directory)
    if not instance_id:
        exists = root.exists(directory)
        return (
            SkippedPath(path, "is no directory" if exists else DISAPPEARED_REASON)
            if path in source.arguments or not exists
            else None
        )
    previous = previous_devices.get(path)
    if previous and (previous.instance_id, previous.directory) == (instance_id, directory):
        return previous
    bus_path = build_bus_path(cache, directory)
    location = (
        f"{bus_path}/{strip_numbers(directory.rpartition('/')[2])}" if bus_path else _list_open_names(source, path)
    )
    captures = extract_words(source.arguments, path)
    return HostDevice(
        KIND, make_device_key(cache, directory), path, f"{KIND}:{location}", directory, "", instance_id, captures
    )


def _list_open_names(source: Source, path: str) -> str:
    """Return the names of a path at the wildcards of a glob."""
    names = path.split("/")[1:]
    for glob in source.arguments:
        if matches_path(glob, path):
            parts = glob.split("/")[1:]
            return "/".join(name for part, name in zip(parts, names, strict=True) if is_glob(part)) or path
    return path
