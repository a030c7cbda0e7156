"""Source `node`: every device node below /dev that matches a glob.

One real device is one host device, also if it has several names. The first name in natural order is its name.
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
        "its path below /dev, as the source matches it",
        "-",
        lambda _, subject: subject.node.removeprefix("/dev/"),
        is_in_memory=True,
    ),
)


def scan(root: Root, source: Source, previous: SourceListing, dirty_set: DirtySet) -> SourceListing:
    """See `Scanner.scan`. Only dirty names are read again, unless a directory on the path of a glob is dirty."""
    dirty_names = _find_dirty_names(source, previous, dirty_set)
    if dirty_names is None:
        paths, skipped_paths, unreadable_prefixes = _expand_globs(root, source)
        unchanged = (
            [device for device in previous.devices if device.name.startswith(unreadable_prefixes)]
            if unreadable_prefixes
            else []
        )
        former_devices = list(previous.devices)
    else:
        paths = [path for path in dirty_names if any(matches_path(glob, path) for glob in source.arguments)]
        if not paths:
            return previous  # the previous listing is still right
        skipped_paths = [
            skipped_path for skipped_path in previous.skipped_paths if skipped_path.path not in dirty_names
        ]
        unchanged, former_devices = [], []
        for device in previous.devices:
            (former_devices if device.name in dirty_names else unchanged).append(device)
    changed, changed_skipped = _make_devices(root, source, paths, former_devices)
    devices, aliases = _merge_names(unchanged, changed)
    current = SourceListing(
        number_equal_locations(devices),
        _sort_skipped_paths([*skipped_paths, *changed_skipped, *aliases], source, devices),
    )
    return previous if current == previous else current


def is_affected(source: Source, previous: SourceListing, dirty_set: DirtySet) -> bool:
    """See `Scanner.is_affected`.

    True for a path that may match or lead to a match, and for the target of a link. Any path counts while a link leads
    nowhere.
    """
    paths = tuple(path for path in dirty_set.paths if path.startswith("/dev"))
    if dirty_set.is_full_rescan or not paths:
        return dirty_set.is_full_rescan
    literals = tuple(map(get_literal_prefix, source.arguments))
    return (
        any(path.startswith(literals) for path in paths)
        or any(prefix.startswith(paths) for prefix in literals)
        or any(not is_glob(o.path) or o.path not in source.arguments for o in previous.skipped_paths)
        or not set(paths).isdisjoint([device.real_node for device in previous.devices])
    )


def is_same_device(root: Root, device: HostDevice) -> bool:
    """See `Scanner.is_same_device`: the node leads to the same directory.

    A node that udev created again is the same device. For a node without a directory in sysfs the grant compares the
    number. The grant also reports a missing node.
    """
    node = root.find_node(device.node)
    if not device.directory or isinstance(node, Absent):
        return True
    return _find_directory(root, node) == device.directory


def list_directories(root: Root, source: Source, listing: SourceListing) -> frozenset[str]:
    """Return the directories where new names can match, also missing ones, and those of link targets."""
    result: set[str] = set()
    for glob in source.arguments:
        directory = glob.rpartition("/")[0]
        if get_literal_prefix(glob).startswith(directory + "/"):  # true for nearly all globs
            result.add(directory)
            continue
        parts = tuple(glob.split("/")[1:])
        for index, part in enumerate(parts):
            if is_glob(part) or index == len(parts) - 1:
                paths = expand(root, "", parts[:index])
                result.update(path for path in paths if isinstance(path, str))
    for device in listing.devices:
        if device.real_node != device.name:
            result.add(device.real_node.rpartition("/")[0])
    return frozenset(result)


def _find_dirty_names(source: Source, previous: SourceListing, dirty_set: DirtySet) -> frozenset[str] | None:
    """Return the names whose node may differ: dirty names, links to these, all skipped paths.

    None: any name may differ.
    """
    if dirty_set.is_full_rescan or previous == SourceListing():
        return None
    paths = {path for path in dirty_set.paths if path.startswith("/dev")}
    if any(_is_parent_path(glob, path) for glob in source.arguments for path in paths):
        return None
    paths.update([device.name for device in previous.devices if device.real_node in paths])
    paths.update(o.path for o in previous.skipped_paths if any(matches_path(glob, o.path) for glob in source.arguments))
    return frozenset(paths)


def _is_parent_path(glob: str, path: str) -> bool:
    """Return whether the path is, or can be, a directory that leads to a match."""
    parts, names = glob.split("/"), path.split("/")
    return len(names) < len(parts) and all(make_matcher(part)(name) for part, name in zip(parts, names, strict=False))


def _expand_globs(root: Root, source: Source) -> tuple[list[str], list[SkippedPath], tuple[str, ...]]:
    """Return the matching paths, the directories that could not be listed, and the prefixes of devices below these."""
    paths: dict[str, None] = {}
    skipped_paths: list[SkippedPath] = []
    unreadable_prefixes: list[str] = []
    for glob in source.arguments:
        for path in expand(root, "", tuple(glob.split("/")[1:])):
            if isinstance(path, str):
                paths[path] = None
            else:
                directory, absence = path
                skipped_paths.append(SkippedPath(directory, absence.reason if absence.unreadable else "is not there"))
                if absence.unreadable:
                    unreadable_prefixes.append(f"{directory.rstrip('/')}/")
    return list(paths), skipped_paths, tuple(unreadable_prefixes)


def _make_devices(
    root: Root, source: Source, paths: Iterable[str], former_devices: Iterable[HostDevice]
) -> tuple[list[HostDevice], list[SkippedPath]]:
    """Return the devices at these paths now, and the skipped paths. `former_devices` were there before."""
    previous_devices = {device.name: device for device in former_devices}
    cache = LookCache(root)
    canonical: dict[str, bool] = {}
    devices: list[HostDevice] = []
    skipped_paths: list[SkippedPath] = []
    for path in paths:
        parent = path.rpartition("/")[0]
        if parent not in canonical:
            canonical[parent] = root.resolve(parent) == parent
        entry = root.find_entry(path, within=canonical[parent])
        if isinstance(entry, Absent):
            # A former match of a glob may be missing. A path that is named in full may not.
            if entry != NO_SUCH_FILE or (path in source.arguments and not is_glob(path)):
                skipped_paths.append(SkippedPath(path, entry.reason))
            if entry.unreadable and path in previous_devices:
                devices.append(previous_devices[path])
            continue
        node, instance_id = entry
        previous = previous_devices.get(path)
        directory = _find_directory(root, node)  # empty for a node that is older than its driver
        if previous and (previous.real_node, previous.instance_id, previous.directory) == (
            node.path,
            instance_id,
            directory,
        ):
            devices.append(previous)
            continue
        bus_path = build_bus_path(cache, directory) if directory else ""
        location = f"{KIND}:{bus_path}/{strip_numbers(directory.rpartition('/')[2])}" if bus_path else path
        key = directory or f"{KIND}:{node.type}{node.major}:{node.minor}"
        captures = extract_words(source.arguments, path)
        devices.append(HostDevice(KIND, key, path, location, directory, path, instance_id, captures, node.path))
    return devices, skipped_paths


def _find_directory(root: Root, node: DeviceNode) -> str:
    """Return the canonical directory of the device of a node. The result is empty if sysfs has none for its number."""
    kind = "char" if node.type == "c" else "block"
    directory = root.resolve_device(f"/sys/dev/{kind}/{node.major}:{node.minor}")
    return directory if isinstance(directory, str) else ""


def _merge_names(unchanged: list[HostDevice], changed: list[HostDevice]) -> tuple[list[HostDevice], list[SkippedPath]]:
    """Return one device for each key, by its first name in natural order. Its other names are skipped paths.

    unchanged: sorted in natural order of name.
    """
    changed_reals = {device.key for device in changed}
    by_key = {device.key: device for device in unchanged if device.key in changed_reals}
    new_devices: list[HostDevice] = []
    aliases: list[SkippedPath] = []
    for device in sorted(changed, key=lambda device: natural_key(device.name)):
        named_device = by_key.get(device.key)
        if named_device is not None and natural_key(named_device.name) <= natural_key(device.name):
            if named_device.name != device.name:
                aliases.append(SkippedPath(device.name, f"another name of {named_device.name}", is_alias=True))
            continue
        if named_device is not None:
            unchanged = [other for other in unchanged if other is not named_device]
            aliases.append(SkippedPath(named_device.name, f"another name of {device.name}", is_alias=True))
        by_key[device.key] = device
        new_devices.append(device)
    if not unchanged:
        return new_devices, aliases
    result = list(unchanged)
    for device in new_devices:
        result.insert(bisect_left(result, natural_key(device.name), key=lambda other: natural_key(other.name)), device)
    return result, aliases


def _sort_skipped_paths(
    skipped_paths: Iterable[SkippedPath], source: Source, devices: Iterable[HostDevice]
) -> tuple[SkippedPath, ...]:
    """Return one skipped path for each path, in natural order, and one for each glob without a match."""
    by_path = {skipped_path.path: skipped_path for skipped_path in skipped_paths}
    for glob in filter(is_glob, source.arguments):
        by_path.pop(glob, None)
        if not any(matches_path(glob, device.name) for device in devices) and not any(
            matches_path(glob, path) or _is_parent_path(glob, path) for path in by_path
        ):
            by_path[glob] = SkippedPath(glob, "nothing fits it")
    return tuple(sorted(by_path.values(), key=lambda skipped_path: natural_key(skipped_path.path)))
