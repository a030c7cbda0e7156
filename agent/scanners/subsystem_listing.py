"""The list of a class or bus in one directory of the kernel, for every source that reads such a list."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from agent.core.entry.resource_spec import Source
from agent.core.inventory.device import HostDevice, make_pci_key
from agent.core.inventory.dirty_set import DirtySet
from agent.core.inventory.listing import SkippedPath
from agent.core.language.value import Absent
from agent.host.root import Root, natural_key
from agent.scanners.path_id import number_equal_locations
from agent.scanners.scanner import SourceListing
from agent.scanners.word_table import PCI_ADDRESS, LookCache

DISAPPEARED_REASON = "went while it was looked at"

_DIRTY_LIMIT = 16  # dirty paths up to which only their names are read again. With more, a full list costs less


# Makes the device at a path of the list, a skipped path, or nothing. The mapping has the previous devices by name:
# an unchanged one is used again.
DeviceFactory = Callable[[LookCache, str, Mapping[str, HostDevice]], HostDevice | SkippedPath | None]


class ScannerFunctions(NamedTuple):
    """The functions of a `Scanner`."""

    scan: Callable[[Root, Source, SourceListing, DirtySet], SourceListing]
    is_affected: Callable[[Source, SourceListing, DirtySet], bool]
    is_same_device: Callable[[Root, HostDevice], bool]
    list_directories: Callable[[Root, Source, SourceListing], frozenset[str]]


def make_scanner_functions(
    get_subsystem: Callable[[Source], str], get_factory: Callable[[Source], DeviceFactory]
) -> ScannerFunctions:
    """Return the scanner functions of a source that makes the devices of a subsystem one by one."""

    def scan(root: Root, source: Source, previous: SourceListing, dirty_set: DirtySet) -> SourceListing:
        return _scan(root, get_subsystem(source), previous, dirty_set, get_factory(source))

    def is_affected(source: Source, previous: SourceListing, dirty_set: DirtySet) -> bool:
        del previous
        return may_have_changed(get_subsystem(source), dirty_set)

    def list_directories(root: Root, source: Source, listing: SourceListing) -> frozenset[str]:
        del listing
        return list_watched_directories(root, get_subsystem(source))

    return ScannerFunctions(scan, is_affected, is_same_device, list_directories)


def get_list_paths(subsystem: str) -> tuple[str, str]:
    """Return the directories where the kernel lists the devices. A class has priority over a bus of the same name."""
    return f"/sys/class/{subsystem}", f"/sys/bus/{subsystem}/devices"


def may_have_changed(subsystem: str, dirty_set: DirtySet) -> bool:
    """Return whether devices of a subsystem may have been added or removed."""
    return (
        dirty_set.is_full_rescan
        or subsystem in dirty_set.subsystems
        or any(path.startswith(get_list_paths(subsystem)) for path in dirty_set.paths)
    )


def list_watched_directories(root: Root, subsystem: str) -> frozenset[str]:
    """Return the list directories of a tree on disk. Empty for the real host, where the kernel sends events."""
    return frozenset(get_list_paths(subsystem) if root.prefix else ())


def is_same_device(root: Root, device: HostDevice) -> bool:
    """See `Scanner.is_same_device`: its directory in sysfs was not created again."""
    return root.read_instance_id(device.directory) == device.instance_id.partition(" ")[0]


def make_device_key(cache: LookCache, directory: str) -> str:
    """Return the device key, equal for all sources."""
    name = directory.rpartition("/")[2]
    if PCI_ADDRESS.fullmatch(name) and cache.read_link_name(f"{directory}/subsystem") == "pci":
        return make_pci_key(name)
    return directory


def list_names(root: Root, subsystem: str, previous: SourceListing) -> tuple[str, tuple[str, ...]] | SourceListing:
    """Return the list directory of a subsystem and the names in it, or the whole listing if they cannot be read."""
    list_paths = get_list_paths(subsystem)
    list_path = next((list_path for list_path in list_paths if root.is_directory(list_path)), list_paths[0])
    names = root.list_names(list_path)
    if not isinstance(names, Absent):
        return list_path, names
    if names.unreadable:
        return SourceListing(previous.devices, (SkippedPath(list_path, names.reason, is_source_failure=True),))
    return SourceListing((), (SkippedPath(list_path, "is not there"),))


def _scan(
    root: Root, subsystem: str, previous: SourceListing, dirty_set: DirtySet, make: DeviceFactory
) -> SourceListing:
    cache = LookCache(root)
    dirty_names = _find_dirty_names(subsystem, previous, dirty_set)
    if dirty_names is not None:
        return _rescan_names(cache, subsystem, previous, dirty_names, make)
    listed = list_names(root, subsystem, previous)
    if isinstance(listed, SourceListing):
        return listed
    list_path, names = listed
    previous_devices = {device.name: device for device in previous.devices}
    results = [make(cache, f"{list_path}/{name}", previous_devices) for name in names]
    devices = number_equal_locations([device for device in results if isinstance(device, HostDevice)])
    current = SourceListing(
        devices, tuple(skipped_path for skipped_path in results if isinstance(skipped_path, SkippedPath))
    )
    return previous if current == previous else current


def _rescan_names(
    cache: LookCache, subsystem: str, previous: SourceListing, dirty_names: Iterable[str], make: DeviceFactory
) -> SourceListing:
    """Return the listing with only some names read again."""
    previous_devices = {
        name: device for name in dirty_names if (device := _find_named(previous.devices, name)) is not None
    }
    removed_names: set[str] = set()
    new_devices: list[HostDevice] = []
    skipped_paths: list[SkippedPath] = []
    list_paths = get_list_paths(subsystem)
    for name in dirty_names:
        list_path = next(
            (
                list_path
                for list_path in list_paths
                if not isinstance(cache.root.read_link_name(f"{list_path}/{name}"), Absent)
            ),
            "",
        )
        current = make(cache, f"{list_path}/{name}", previous_devices) if list_path else None
        if isinstance(current, SkippedPath):
            skipped_paths.append(current)
        if not isinstance(current, HostDevice):
            removed_names.add(name)
        elif current is not previous_devices.get(name):
            removed_names.add(name)
            new_devices.append(current)
    dirty_paths = {f"{list_path}/{name}" for list_path in list_paths for name in dirty_names}
    unchanged = [skipped_path for skipped_path in previous.skipped_paths if skipped_path.path not in dirty_paths]
    # Only a list of the directory shows that the whole subsystem is missing.
    all_skipped = tuple(sorted([*unchanged, *skipped_paths], key=lambda skipped_path: natural_key(skipped_path.path)))
    if not new_devices and removed_names.isdisjoint(previous_devices):
        return previous if all_skipped == previous.skipped_paths else SourceListing(previous.devices, all_skipped)
    devices = [device for device in previous.devices if device.name not in removed_names]
    for device in new_devices:
        devices.insert(
            bisect_left(devices, natural_key(device.name), key=lambda other: natural_key(other.name)), device
        )
    return SourceListing(number_equal_locations(devices), all_skipped)


def _find_named(devices: Sequence[HostDevice], name: str) -> HostDevice | None:
    """Return the device with this name among devices in natural order of name."""
    index = bisect_left(devices, natural_key(name), key=lambda device: natural_key(device.name))
    return devices[index] if index < len(devices) and devices[index].name == name else None


def _find_dirty_names(subsystem: str, previous: SourceListing, dirty_set: DirtySet) -> frozenset[str] | None:
    """Return the names that may have another device now. None: any name may."""
    if dirty_set.is_full_rescan or not previous.devices or len(dirty_set.paths) > _DIRTY_LIMIT:
        return None
    list_paths = get_list_paths(subsystem)
    names: set[str] = set()
    for path in dirty_set.paths:
        if path in list_paths:
            return None
        if path.startswith("/sys/"):
            names.add(path.rpartition("/")[2])
            prefix = f"{path}/"
            names.update(device.name for device in previous.devices if device.directory.startswith(prefix))
    return frozenset(names) or None
