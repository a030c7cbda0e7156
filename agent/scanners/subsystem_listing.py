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
from agent.host.root import Root, order
from agent.scanners.path_id import told_apart
from agent.scanners.scanner import Found
from agent.scanners.word_table import PCI_ADDRESS, LookCache

GONE = "went while it was looked at"

_FEW = 16  # touched paths up to which their names alone are looked at again; above, everything costs less


# What stands at a path of the list: a device, an oddity, or nothing that counts. The mapping has those of before by
# path, for what need not be made anew.
See = Callable[[LookCache, str, Mapping[str, HostDevice]], HostDevice | SkippedPath | None]


class ScannerFunctions(NamedTuple):
    """The functions of a `Scanner`."""

    scan: Callable[[Root, Source, Found, DirtySet], Found]
    concerns: Callable[[Source, Found, DirtySet], bool]
    same: Callable[[Root, HostDevice], bool]
    directories: Callable[[Root, Source, Found], frozenset[str]]


def ways(subsystem_of: Callable[[Source], str], see: Callable[[Source], See]) -> ScannerFunctions:
    """How a source is looked at that sees the devices of a subsystem, one by one."""

    def scan(root: Root, source: Source, previous: Found, touched: DirtySet) -> Found:
        return _scan(root, subsystem_of(source), previous, touched, see(source))

    def concerns(source: Source, previous: Found, touched: DirtySet) -> bool:
        del previous
        return concerned(subsystem_of(source), touched)

    def directories(root: Root, source: Source, found: Found) -> frozenset[str]:
        del found
        return watched(root, subsystem_of(source))

    return ScannerFunctions(scan, concerns, same, directories)


def places(subsystem: str) -> tuple[str, str]:
    """Where the kernel lists the devices; a class goes before a bus of the same name."""
    return f"/sys/class/{subsystem}", f"/sys/bus/{subsystem}/devices"


def concerned(subsystem: str, touched: DirtySet) -> bool:
    """Whether devices of a subsystem may have come or gone."""
    return (
        touched.everything
        or subsystem in touched.subsystems
        or any(path.startswith(places(subsystem)) for path in touched.paths)
    )


def watched(root: Root, subsystem: str) -> frozenset[str]:
    """Of a tree on disk the directories that are listed; the kernel tells by its own events."""
    return frozenset(places(subsystem) if root.prefix else ())


def same(root: Root, device: HostDevice) -> bool:
    """See `Scanner.same`: its directory in sysfs was not made anew."""
    return root.stamp(device.directory) == device.stamp.partition(" ")[0]


def key_of(sight: LookCache, directory: str) -> str:
    """What a device is known by, whichever source sees it."""
    name = directory.rpartition("/")[2]
    if PCI_ADDRESS.fullmatch(name) and sight.link(f"{directory}/subsystem") == "pci":
        return pci_key(name)
    return directory


def names_of(root: Root, subsystem: str, previous: Found) -> tuple[str, tuple[str, ...]] | Found:
    """Where the devices of a subsystem are listed, and their names; or what is seen where that cannot be said."""
    either = places(subsystem)
    place = next((place for place in either if root.is_directory(place)), either[0])
    names = root.names(place)
    if not isinstance(names, Absent):
        return place, names
    if names.unreadable:
        return Found(previous.devices, (SkippedPath(place, names.reason, failed=True),))
    return Found((), (SkippedPath(place, "is not there"),))


def _scan(root: Root, subsystem: str, previous: Found, touched: DirtySet, see: See) -> Found:
    sight = LookCache(root)
    doubtful = _doubtful(subsystem, previous, touched)
    if doubtful is not None:
        return _again(sight, subsystem, previous, doubtful, see)
    listed = names_of(root, subsystem, previous)
    if isinstance(listed, Found):
        return listed
    place, names = listed
    before = {device.name: device for device in previous.devices}
    found = [see(sight, f"{place}/{name}", before) for name in names]
    devices = told_apart([device for device in found if isinstance(device, HostDevice)])
    now = Found(devices, tuple(oddity for oddity in found if isinstance(oddity, SkippedPath)))
    return previous if now == previous else now


def _again(sight: LookCache, subsystem: str, previous: Found, doubtful: Iterable[str], see: See) -> Found:
    """What is seen when only some names are looked at again."""
    before = {name: device for name in doubtful if (device := _named(previous.devices, name)) is not None}
    gone: set[str] = set()
    fresh: list[HostDevice] = []
    oddities: list[SkippedPath] = []
    either = places(subsystem)
    for name in doubtful:
        place = next((place for place in either if not isinstance(sight.root.link(f"{place}/{name}"), Absent)), "")
        now = see(sight, f"{place}/{name}", before) if place else None
        if isinstance(now, SkippedPath):
            oddities.append(now)
        if not isinstance(now, HostDevice):
            gone.add(name)
        elif now is not before.get(name):
            gone.add(name)
            fresh.append(now)
    named = {f"{place}/{name}" for place in either for name in doubtful}
    kept = [oddity for oddity in previous.oddities if oddity.path not in named]
    # That the subsystem is not there at all is known only by listing it.
    odd = tuple(sorted([*kept, *oddities], key=lambda oddity: order(oddity.path)))
    if not fresh and gone.isdisjoint(before):
        return previous if odd == previous.oddities else Found(previous.devices, odd)
    devices = [device for device in previous.devices if device.name not in gone]
    for device in fresh:
        devices.insert(bisect_left(devices, order(device.name), key=lambda other: order(other.name)), device)
    return Found(told_apart(devices), odd)


def _named(devices: Sequence[HostDevice], name: str) -> HostDevice | None:
    """The one of that name among devices in natural order of name."""
    at = bisect_left(devices, order(name), key=lambda device: order(device.name))
    return devices[at] if at < len(devices) and devices[at].name == name else None


def _doubtful(subsystem: str, previous: Found, touched: DirtySet) -> frozenset[str] | None:
    """The names that may lead elsewhere than before; None: any may."""
    if touched.everything or not previous.devices or len(touched.paths) > _FEW:
        return None
    lists = places(subsystem)
    names: set[str] = set()
    for path in touched.paths:
        if path in lists:
            return None
        if path.startswith("/sys/"):
            names.add(path.rpartition("/")[2])
            below = f"{path}/"
            names.update(device.name for device in previous.devices if device.directory.startswith(below))
    return frozenset(names) or None
