"""Source `subsystem`: every device of a class or bus of the kernel; and how its like sees one device."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from agent.core.entry.resource_spec import Source
from agent.core.inventory.device import HostDevice
from agent.core.inventory.listing import SkippedPath
from agent.core.language.value import Absent
from agent.host.udev import read_uevent
from agent.scanners.path_id import build_bus_path, strip_numbers
from agent.scanners.subsystem_listing import (
    DISAPPEARED_REASON,
    DeviceFactory,
    ScannerFunctions,
    make_device_key,
    make_scanner_functions,
)
from agent.scanners.word_table import LookCache, make_table

KIND = "subsystem"
DEFAULT_IDS: tuple[str, ...] = ()  # no word of every class lasts: the entry has to say
TABLE = make_table("subsystem")

LocationFunction = Callable[[LookCache, str, str], str]  # of a directory and a name: where the device sits
DeviceFilter = Callable[[LookCache, str, str], bool]


def make_device_factory(
    kind: str, subsystem: str, place: LocationFunction | None = None, wanted: DeviceFilter = lambda *_: True
) -> DeviceFactory:
    """How one device of a subsystem is seen by a source of that kind.

    place: where a device sits, as the source says it; else by its position and its name without numbers.
    wanted: whether a device of the subsystem is one of the source, asked once of each.
    """

    def see(sight: LookCache, path: str, before: Mapping[str, HostDevice]) -> HostDevice | SkippedPath | None:
        root = sight.root
        name = path.rpartition("/")[2]
        old = before.get(name)
        if old and not root.prefix and root.read_directory_instance_id(old.directory) == old.stamp.partition(" ")[0]:
            return old  # the kernel gives no inode of sysfs twice, and lists no two by one name
        directory = root.resolve_device(path)
        if isinstance(directory, Absent):
            return SkippedPath(path, directory.reason)
        inode = root.read_directory_instance_id(directory)
        if not inode:
            return (
                None if root.exists(directory) else SkippedPath(path, DISAPPEARED_REASON)
            )  # a class has attributes too
        if not wanted(sight, directory, name):
            return None
        said = read_uevent(root, directory)
        number = f" {said['MAJOR']}:{said['MINOR']}" if "MAJOR" in said and "MINOR" in said else ""
        stamp = f"{inode}{number}"
        if old and (old.stamp, old.directory) == (stamp, directory):
            return old
        node = said.get("DEVNAME", "")
        node = node if not node or node.startswith("/dev/") else f"/dev/{node}"
        sits = place(sight, directory, name) if place else _place(sight, directory, name)
        return HostDevice(kind, make_device_key(sight, directory), name, f"{subsystem}:{sits}", directory, node, stamp)

    return see


def make_scanner(
    kind: str, subsystem: str, place: LocationFunction | None = None, wanted: DeviceFilter = lambda *_: True
) -> ScannerFunctions:
    """How a source is looked at that is named after what it sees of one subsystem."""
    see = make_device_factory(kind, subsystem, place, wanted)
    return make_scanner_functions(lambda _: subsystem, lambda _: see)


def _place(sight: LookCache, directory: str, name: str) -> str:
    sits = build_bus_path(sight, directory)
    return f"{sits}/{strip_numbers(name)}" if sits else name


def _subsystem(source: Source) -> str:
    return source.arguments[0]


scan, is_affected, is_same_device, list_directories = make_scanner_functions(
    _subsystem, lambda source: make_device_factory(KIND, _subsystem(source))
)
