"""Source `node`: every device node below /dev that fits a glob.

Nodes of one type and number are one host device, however many names lead to them, as links, hard links or nodes of
their own; the first name in natural order names it. Its key is its directory in sysfs, or the number without one.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable

from agent.core.entry.resource_spec import Source
from agent.core.inventory.device import DeviceNode, HostDevice
from agent.core.inventory.dirty_set import DirtySet
from agent.core.inventory.listing import SkippedPath
from agent.core.language.value import Absent, ValueType
from agent.host.read_errors import NO_SUCH_FILE
from agent.host.root import Root, natural_key
from agent.scanners.glob_files import expand, extract_words, get_literal_prefix, is_glob, make_matcher, matches_path
from agent.scanners.path_id import build_bus_path, number_equal_locations, strip_numbers
from agent.scanners.scanner import SourceListing
from agent.scanners.word_table import LookCache, Word, make_table

KIND = "node"
DEFAULT_IDS: tuple[str, ...] = ("{below_dev}",)
TABLE = make_table(
    "node",
    Word(
        "below_dev",
        ValueType.TEXT,
        "its path below /dev, as the source fits it",
        "-",
        lambda _, thing: thing.node.removeprefix("/dev/"),
        is_in_memory=True,
    ),
)


def scan(root: Root, source: Source, previous: SourceListing, touched: DirtySet) -> SourceListing:
    """See `Scanner.scan`. Unless a directory on the way was touched, only touched names are looked at again."""
    doubtful = _doubtful(source, previous, touched)
    if doubtful is None:
        paths, oddities, blind = _fitting(root, source)
        kept = [device for device in previous.devices if device.name.startswith(blind)] if blind else []
        before = list(previous.devices)
    else:
        paths = [path for path in doubtful if any(matches_path(glob, path) for glob in source.arguments)]
        if not paths:
            return previous  # what was found before fits: nothing of it is in doubt
        oddities = [oddity for oddity in previous.skipped_paths if oddity.path not in doubtful]
        kept, before = [], []
        for device in previous.devices:
            (before if device.name in doubtful else kept).append(device)
    seen, odd = _look(root, source, paths, before)
    devices, aliases = _one_each(kept, seen)
    found = SourceListing(
        number_equal_locations(devices), _sorted_oddities([*oddities, *odd, *aliases], source, devices)
    )
    return previous if found == previous else found


def is_affected(source: Source, previous: SourceListing, touched: DirtySet) -> bool:
    """See `Scanner.concerns`: a path that may fit or lead there, what a link led to; any, if one leads nowhere."""
    paths = tuple(path for path in touched.paths if path.startswith("/dev"))
    if touched.everything or not paths:
        return touched.everything
    literals = tuple(map(get_literal_prefix, source.arguments))
    return (
        any(path.startswith(literals) for path in paths)
        or any(begins.startswith(paths) for begins in literals)
        or any(not is_glob(o.path) or o.path not in source.arguments for o in previous.skipped_paths)
        or not set(paths).isdisjoint([device.real for device in previous.devices])
    )


def is_same_device(root: Root, device: HostDevice) -> bool:
    """See `Scanner.same`: what stands at the name leads to the directory it led to.

    A node that udev has made anew is the same thing. Of what sysfs does not know the grant compares the number; and
    that nothing stands there now is for the grant to say.
    """
    node = root.find_node(device.node)
    if not device.directory or isinstance(node, Absent):
        return True
    return _directory(root, node) == device.directory


def list_directories(root: Root, source: Source, found: SourceListing) -> frozenset[str]:
    """Where new names can come that fit, directories that are not there yet too; and where links lead to."""
    result: set[str] = set()
    for glob in source.arguments:
        directory = glob.rpartition("/")[0]
        if get_literal_prefix(glob).startswith(directory + "/"):  # as nearly all do
            result.add(directory)
            continue
        parts = tuple(glob.split("/")[1:])
        for index, part in enumerate(parts):
            if is_glob(part) or index == len(parts) - 1:
                ways = expand(root, "", parts[:index])
                result.update(way for way in ways if isinstance(way, str))
    for device in found.devices:
        if device.real != device.name:
            result.add(device.real.rpartition("/")[0])
    return frozenset(result)


def _doubtful(source: Source, previous: SourceListing, touched: DirtySet) -> frozenset[str] | None:
    """The names whose node may differ from before: touched ones, links to these, all oddities. None: any may."""
    if touched.everything or previous == SourceListing():
        return None
    paths = {path for path in touched.paths if path.startswith("/dev")}
    if any(_on_the_way(glob, path) for glob in source.arguments for path in paths):
        return None
    paths.update([device.name for device in previous.devices if device.real in paths])
    paths.update(o.path for o in previous.skipped_paths if any(matches_path(glob, o.path) for glob in source.arguments))
    return frozenset(paths)


def _on_the_way(glob: str, path: str) -> bool:
    """Whether the path is, or can be, a directory that leads to what fits."""
    parts, names = glob.split("/"), path.split("/")
    return len(names) < len(parts) and all(make_matcher(part)(name) for part, name in zip(parts, names, strict=False))


def _fitting(root: Root, source: Source) -> tuple[list[str], list[SkippedPath], tuple[str, ...]]:
    """The paths that fit; directories that could not be listed; what devices below these begin with."""
    paths: dict[str, None] = {}
    oddities: list[SkippedPath] = []
    blind: list[str] = []
    for glob in source.arguments:
        for path in expand(root, "", tuple(glob.split("/")[1:])):
            if isinstance(path, str):
                paths[path] = None
            else:
                directory, why = path
                oddities.append(SkippedPath(directory, why.reason if why.unreadable else "is not there"))
                if why.unreadable:
                    blind.append(f"{directory.rstrip('/')}/")
    return list(paths), oddities, tuple(blind)


def _look(
    root: Root, source: Source, paths: Iterable[str], former: Iterable[HostDevice]
) -> tuple[list[HostDevice], list[SkippedPath]]:
    """What stands at these paths now; `former` stood there before."""
    before = {device.name: device for device in former}
    sight = LookCache(root)
    canonical: dict[str, bool] = {}
    devices: list[HostDevice] = []
    oddities: list[SkippedPath] = []
    for path in paths:
        parent = path.rpartition("/")[0]
        if parent not in canonical:
            canonical[parent] = root.resolve(parent) == parent
        entry = root.find_entry(path, within=canonical[parent])
        if isinstance(entry, Absent):
            # What a glob once fitted and is no more is nothing odd; what was asked for by its name is.
            if entry != NO_SUCH_FILE or (path in source.arguments and not is_glob(path)):
                oddities.append(SkippedPath(path, entry.reason))
            if entry.unreadable and path in before:
                devices.append(before[path])
            continue
        node, stamp = entry
        old = before.get(path)
        directory = _directory(root, node)  # of a node that was made before its driver came there is none yet
        if old and (old.real, old.stamp, old.directory) == (node.path, stamp, directory):
            devices.append(old)
            continue
        sits = build_bus_path(sight, directory) if directory else ""
        place = f"{KIND}:{sits}/{strip_numbers(directory.rpartition('/')[2])}" if sits else path
        key = directory or f"{KIND}:{node.type}{node.major}:{node.minor}"
        took = extract_words(source.arguments, path)
        devices.append(HostDevice(KIND, key, path, place, directory, path, stamp, took, node.path))
    return devices, oddities


def _directory(root: Root, node: DeviceNode) -> str:
    """The canonical directory of a node's device; empty if sysfs has none for its number."""
    kind = "char" if node.type == "c" else "block"
    directory = root.resolve_device(f"/sys/dev/{kind}/{node.major}:{node.minor}")
    return directory if isinstance(directory, str) else ""


def _one_each(kept: list[HostDevice], seen: list[HostDevice]) -> tuple[list[HostDevice], list[SkippedPath]]:
    """One device for each key, by its first name in natural order; its other names as oddities. `kept` is sorted."""
    again = {device.key for device in seen}
    by_key = {device.key: device for device in kept if device.key in again}
    fresh: list[HostDevice] = []
    aliases: list[SkippedPath] = []
    for device in sorted(seen, key=lambda device: natural_key(device.name)):
        first = by_key.get(device.key)
        if first is not None and natural_key(first.name) <= natural_key(device.name):
            if first.name != device.name:
                aliases.append(SkippedPath(device.name, f"another name of {first.name}", is_alias=True))
            continue
        if first is not None:
            kept = [other for other in kept if other is not first]
            aliases.append(SkippedPath(first.name, f"another name of {device.name}", is_alias=True))
        by_key[device.key] = device
        fresh.append(device)
    if not kept:
        return fresh, aliases
    result = list(kept)
    for device in fresh:
        result.insert(bisect_left(result, natural_key(device.name), key=lambda other: natural_key(other.name)), device)
    return result, aliases


def _sorted_oddities(
    oddities: Iterable[SkippedPath], source: Source, devices: Iterable[HostDevice]
) -> tuple[SkippedPath, ...]:
    """One for each path, in natural order; with one for each glob that nothing fits."""
    by_path = {oddity.path: oddity for oddity in oddities}
    for glob in filter(is_glob, source.arguments):
        by_path.pop(glob, None)
        if not any(matches_path(glob, device.name) for device in devices) and not any(
            matches_path(glob, path) or _on_the_way(glob, path) for path in by_path
        ):
            by_path[glob] = SkippedPath(glob, "nothing fits it")
    return tuple(sorted(by_path.values(), key=lambda oddity: natural_key(oddity.path)))
