"""Source `subsystem`: every device of a class or bus of the kernel. Other sources use its device factory."""

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
DEFAULT_IDS: tuple[str, ...] = ()  # no word is stable in every class: the entry must have an `id`
TABLE = make_table("subsystem")

LocationFunction = Callable[[LookCache, str, str], str]  # returns the location for a directory and a name
DeviceFilter = Callable[[LookCache, str, str], bool]


def make_device_factory(
    kind: str, subsystem: str, locate: LocationFunction | None = None, is_included: DeviceFilter = lambda *_: True
) -> DeviceFactory:
    """Return the function that makes a device of a subsystem for sources of this kind.

    locate: returns the location of a device. The default is its bus path and its name without numbers.
    is_included: whether the source includes a device of the subsystem, called once for each.
    """

    def make(
        cache: LookCache, path: str, previous_devices: Mapping[str, HostDevice]
    ) -> HostDevice | SkippedPath | None:
        root = cache.root
        name = path.rpartition("/")[2]
        previous = previous_devices.get(name)
        if (
            previous
            and not root.prefix
            and root.read_directory_instance_id(previous.directory) == previous.instance_id.partition(" ")[0]
        ):
            return previous  # the kernel uses no sysfs inode twice, and lists each name once
        directory = root.resolve_device(path)
        if isinstance(directory, Absent):
            return SkippedPath(path, directory.reason)
        inode = root.read_directory_instance_id(directory)
        if not inode:
            # A class has attributes too, which are no devices.
            return None if root.exists(directory) else SkippedPath(path, DISAPPEARED_REASON)
        if not is_included(cache, directory, name):
            return None
        properties = read_uevent(root, directory)
        number = (
            f" {properties['MAJOR']}:{properties['MINOR']}" if "MAJOR" in properties and "MINOR" in properties else ""
        )
        instance_id = f"{inode}{number}"
        if previous and (previous.instance_id, previous.directory) == (instance_id, directory):
            return previous
        node = properties.get("DEVNAME", "")
        node = node if not node or node.startswith("/dev/") else f"/dev/{node}"
        location = locate(cache, directory, name) if locate else _build_location(cache, directory, name)
        return HostDevice(
            kind, make_device_key(cache, directory), name, f"{subsystem}:{location}", directory, node, instance_id
        )

    return make


def make_scanner(
    kind: str, subsystem: str, locate: LocationFunction | None = None, is_included: DeviceFilter = lambda *_: True
) -> ScannerFunctions:
    """Return the scanner functions of a source whose kind is named after its devices in one subsystem."""
    make = make_device_factory(kind, subsystem, locate, is_included)
    return make_scanner_functions(lambda _: subsystem, lambda _: make)


def _build_location(cache: LookCache, directory: str, name: str) -> str:
    bus_path = build_bus_path(cache, directory)
    return f"{bus_path}/{strip_numbers(name)}" if bus_path else name


def _get_subsystem(source: Source) -> str:
    return source.arguments[0]


scan, is_affected, is_same_device, list_directories = make_scanner_functions(
    _get_subsystem, lambda source: make_device_factory(KIND, _get_subsystem(source))
)
