"""Source `subsystem`: every device of a class or bus of the kernel."""

from __future__ import annotations

from agent.core.device import HostDevice
from agent.core.look import Oddity
from agent.core.resource import Source
from agent.core.touched import Touched
from agent.core.value import Absent
from agent.host.root import Root
from agent.host.udev import uevent
from agent.scanners import pci
from agent.scanners.position import position, stem, told_apart
from agent.scanners.scanner import Found
from agent.scanners.words import Sight, table

KIND = "subsystem"
DEFAULT_IDS: tuple[str, ...] = ()  # no word of every class lasts: the entry has to say
TABLE = table("subsystem")


def scan(root: Root, source: Source, previous: Found, touched: Touched) -> Found:
    """See `Scanner.scan`; the directory is listed whole, whatever was touched."""
    del touched
    (subsystem,) = source.arguments
    place = next((place for place in _places(subsystem) if root.is_directory(place)), _places(subsystem)[0])
    names = root.names(place)
    if isinstance(names, Absent):
        if names.unread:
            return Found(previous.devices, (Oddity(place, names.reason),))
        return Found((), (Oddity(place, "is not there"),))
    sight = Sight(root)
    before = {device.key: device for device in previous.devices}
    devices: list[HostDevice] = []
    oddities: list[Oddity] = []
    for name in names:
        device = _device(sight, subsystem, f"{place}/{name}", before)
        if isinstance(device, Oddity):
            oddities.append(device)
        elif device:
            devices.append(device)
    return Found(told_apart(devices), tuple(oddities))


def concerns(source: Source, previous: Found, touched: Touched) -> bool:
    """See `Scanner.concerns`."""
    del previous
    (subsystem,) = source.arguments
    return (
        touched.everything
        or subsystem in touched.subsystems
        or any(path.startswith(_places(subsystem)) for path in touched.paths)
    )


def same(root: Root, device: HostDevice) -> bool:
    """See `Scanner.same`: its directory in sysfs was not made anew."""
    return root.stamp(device.directory) == device.stamp.partition(" ")[0]


def directories(root: Root, source: Source, found: Found) -> frozenset[str]:
    """Of a tree on disk the one that is listed; the kernel tells by its own events."""
    del found
    return frozenset(_places(source.arguments[0]) if root.prefix else ())


def _places(subsystem: str) -> tuple[str, str]:
    """Where the kernel lists the devices; a class goes before a bus of the same name."""
    return f"/sys/class/{subsystem}", f"/sys/bus/{subsystem}/devices"


def _device(sight: Sight, subsystem: str, path: str, before: dict[str, HostDevice]) -> HostDevice | Oddity | None:
    root = sight.root
    name = path.rpartition("/")[2]
    directory = root.device(path)
    if isinstance(directory, Absent):
        return Oddity(path, directory.reason)
    if not root.is_directory(directory):
        return None if root.exists(directory) else Oddity(path, "went while it was looked at")  # a class's attribute
    said = uevent(root, directory)
    number = f" {said['MAJOR']}:{said['MINOR']}" if "MAJOR" in said and "MINOR" in said else ""
    stamp = f"{root.stamp(directory)}{number}"
    key = pci.key(name) if subsystem == pci.KIND else directory
    old = before.get(key)
    if old and (old.stamp, old.name) == (stamp, name):
        return old
    node = said.get("DEVNAME", "")
    node = node if not node or node.startswith("/dev/") else f"/dev/{node}"
    sits = position(sight, directory)
    place = f"{subsystem}:{sits}/{stem(name)}" if sits else f"{subsystem}:{name}"
    return HostDevice(KIND, key, name, place, directory, node, stamp)
