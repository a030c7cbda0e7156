"""What the kernel lists in one directory, of a class or of a bus: how every source does that sees such devices."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from agent.core.entry.resource_spec import Source
from agent.core.inventory.device import HostDevice, pci_key
from agent.core.inventory.dirty_set import DirtySet
from agent.core.inventory.listing import SkippedPath
from agent.core.language.value import Absent
from agent.host.root import Root, natural_key
from agent.scanners.path_id import number_equal_locations
from agent.scanners.scanner import SourceListing
from agent.scanners.word_table import PCI_ADDRESS, LookCache

DISAPPEARED_REASON = "went while it was looked at"

_FEW = 16  # touched paths up to which their names alone are looked at again; above, everything costs less


# What stands at a path of the list: a device, an oddity, or nothing that counts. The mapping has those of before by
# path, for what need not be made anew.
DeviceFactory = Callable[[LookCache, str, Mapping[str, HostDevice]], HostDevice | SkippedPath | None]


class ScannerFunctions(NamedTuple):
    """The functions of a `Scanner`."""

    scan: Callable[[Root, Source, SourceListing, DirtySet], SourceListing]
    is_affected: Callable[[Source, SourceListing, DirtySet], bool]
    is_same_device: Callable[[Root, HostDevice], bool]
    list_directories: Callable[[Root, Source, SourceListing], frozenset[str]]


def make_scanner_functions(
    subsystem_of: Callable[[Source], str], see: Callable[[Source], DeviceFactory]
) -> ScannerFunctions:
    """How a source is looked at that sees the devices of a subsystem, one by one."""

    def scan(root: Root, source: Source, previous: SourceListing, touched: DirtySet) -> SourceListing:
        return _scan(root, subsystem_of(source), previous, touched, see(source))

    def concerns(source: Source, previous: SourceListing, touched: DirtySet) -> bool:
        del previous
        return may_have_changed(subsystem_of(source), touched)

    def directories(root: Root, source: Source, found: SourceListing) -> frozenset[str]:
        del found
        return list_watched_directories(root, subsystem_of(source))

    return ScannerFunctions(scan, concerns, is_same_device, directories)


def get_list_paths(subsystem: str) -> tuple[str, str]:
    """Where the kernel lists the devices; a class goes before a bus of the same name."""
    return f"/sys/class/{subsystem}", f"/sys/bus/{subsystem}/devices"


def may_have_changed(subsystem: str, touched: DirtySet) -> bool:
    """Whether devices of a subsystem may have come or gone."""
    return (
        touched.everything
        or subsystem in touched.subsystems
        or any(path.startswith(get_list_paths(subsystem)) for path in touched.paths)
    )


def list_watched_directories(root: Root, subsystem: str) -> frozenset[str]:
    """Of a tree on disk the directories that are listed; the kernel tells by its own events."""
    return frozenset(get_list_paths(subsystem) if root.prefix else ())


def is_same_device(root: Root, device: HostDevice) -> bool:
    """See `Scanner.same`: its directory in sysfs was not made anew."""
    return root.read_instance_id(device.directory) == device.stamp.partition(" ")[0]


def make_device_key(sight: LookCache, directory: str) -> str:
    """What a device is known by, whichever source sees it."""
    name = directory.rpartition("/")[2]
    if PCI_ADDRESS.fullmatch(name) and sight.read_link_name(f"{directory}/subsystem") == "pci":
        return pci_key(name)
    return directory


def list_names(root: Root, subsystem: str, previous: SourceListing) -> tuple[str, tuple[str, ...]] | SourceListing:
    """Where the devices of a subsystem are listed, and their names; or what is seen where that cannot be said."""
    either = get_list_paths(subsystem)
    place = next((place for place in either if root.is_directory(place)), either[0])
    names = root.list_names(place)
    if not isinstance(names, Absent):
        return place, names
    if names.unreadable:
        return SourceListing(previous.devices, (SkippedPath(place, names.reason, failed=True),))
    return SourceListing((), (SkippedPath(place, "is not there"),))


def _scan(root: Root, subsystem: str, previous: SourceListing, touched: DirtySet, see: DeviceFactory) -> SourceListing:
    sight = LookCache(root)
    doubtful = _doubtful(subsystem, previous, touched)
    if doubtful is not None:
        return _again(sight, subsystem, previous, doubtful, see)
    listed = list_names(root, subsystem, previous)
    if isinstance(listed, SourceListing):
        return listed
    place, names = listed
    before = {device.name: device for device in previous.devices}
    found = [see(sight, f"{place}/{name}", before) for name in names]
    devices = number_equal_locations([device for device in found if isinstance(device, HostDevice)])
    now = SourceListing(devices, tuple(oddity for oddity in found if isinstance(oddity, SkippedPath)))
    return previous if now == previous else now


def _again(
    sight: LookCache, subsystem: str, previous: SourceListing, doubtful: Iterable[str], see: DeviceFactory
) -> SourceListing:
    """What is seen when only some names are looked at again."""
    before = {name: device for name in doubtful if (device := _named(previous.devices, name)) is not None}
    gone: set[str] = set()
    fresh: list[HostDevice] = []
    oddities: list[SkippedPath] = []
    either = get_list_paths(subsystem)
    for name in doubtful:
        place = next(
            (place for place in either if not isinstance(sight.root.read_link_name(f"{place}/{name}"), Absent)), ""
        )
        now = see(sight, f"{place}/{name}", before) if place else None
        if isinstance(now, SkippedPath):
            oddities.append(now)
        if not isinstance(now, HostDevice):
            gone.add(name)
        elif now is not before.get(name):
            gone.add(name)
            fresh.append(now)
    named = {f"{place}/{name}" for place in either for name in doubtful}
    kept = [oddity for oddity in previous.skipped_paths if oddity.path not in named]
    # That the subsystem is not there at all is known only by listing it.
    odd = tuple(sorted([*kept, *oddities], key=lambda oddity: natural_key(oddity.path)))
    if not fresh and gone.isdisjoint(before):
        return previous if odd == previous.skipped_paths else SourceListing(previous.devices, odd)
    devices = [device for device in previous.devices if device.name not in gone]
    for device in fresh:
        devices.insert(
            bisect_left(devices, natural_key(device.name), key=lambda other: natural_key(other.name)), device
        )
    return SourceListing(number_equal_locations(devices), odd)


def _named(devices: Sequence[HostDevice], name: str) -> HostDevice | None:
    """The one of that name among devices in natural order of name."""
    at = bisect_left(devices, natural_key(name), key=lambda device: natural_key(device.name))
    return devices[at] if at < len(devices) and devices[at].name == name else None


def _doubtful(subsystem: str, previous: SourceListing, touched: DirtySet) -> frozenset[str] | None:
    """The names that may lead elsewhere than before; None: any may."""
    if touched.everything or not previous.devices or len(touched.paths) > _FEW:
        return None
    lists = get_list_paths(subsystem)
    names: set[str] = set()
    for path in touched.paths:
        if path in lists:
            return None
        if path.startswith("/sys/"):
            names.add(path.rpartition("/")[2])
            below = f"{path}/"
            names.update(device.name for device in previous.devices if device.directory.startswith(below))
    return frozenset(names) or None
