"""Location of a device, in the form of udev's ID_PATH (systemd, src/udev/udev-builtin-path_id.c), from sysfs alone.

Of the buses that udev knows, pci, usb and platform are implemented here. virtio adds nothing, as in udev.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from agent.core.inventory.device import HostDevice
from agent.core.language.value import Absent
from agent.core.struct import replace
from agent.scanners.word_table import LookCache

# These have a part in ID_PATH that is not implemented here. No value is better than a wrong one.
_UDEV_ONLY = frozenset(
    {"scsi", "scsi_tape", "nvme", "nvme-subsystem", "cciss", "bcma", "serio", "amba", "acpi"}
    | {"xen", "scm", "ccw", "ccwgroup", "ap", "iucv", "spi"}
)
_NUMBER = re.compile(r"(?<=[A-Za-z_])[0-9]+")


def build_path_id(cache: LookCache, directory: str) -> str | Absent:
    """Return the value that udev has in ID_PATH. The result is absent where udev has none, or only udev knows it."""
    parts, unknown_subsystem, has_transport = _walk_up(cache, directory)
    if unknown_subsystem:
        return Absent(f"of {unknown_subsystem} devices it is known to udev only")
    if not parts:
        return Absent("it sits on no bus")
    if not any(part.startswith(("pci-", "platform-")) for part in parts):
        return Absent("nothing above it has a lasting place")
    if not has_transport and cache.read_link_name(f"{directory}/subsystem") == "block":
        return Absent("of such block devices udev says none")
    return "-".join(parts)


def build_bus_path(cache: LookCache, directory: str) -> str:
    """Return the known parts of ID_PATH, to tell locations apart. The result is empty for a virtual device."""
    return "-".join(_walk_up(cache, directory)[0])


def get_device_location(cache: LookCache, directory: str) -> str:
    """Return the bus path, with the number of the subfunction for a device on one.

    One PCI function has many subfunctions.
    """
    bus_path = build_bus_path(cache, directory)
    current = directory if bus_path else ""
    while current.startswith("/sys/devices/"):
        if cache.read_link_name(f"{current}/subsystem") == "auxiliary":
            number = cache.read_text(f"{current}/sfnum")
            return f"{bus_path}/sf{number}" if isinstance(number, str) and number.isdecimal() else bus_path
        current = current.rpartition("/")[0]
    return bus_path


def strip_numbers(name: str) -> str:
    """Return a device name without the numbers that the kernel assigns in order: `ttyUSB`, `renderD`, `mlx_`."""
    return _NUMBER.sub("", name)


def number_equal_locations(devices: Sequence[HostDevice]) -> tuple[HostDevice, ...]:
    """Return the devices with a number in equal locations, as for two cameras of one USB device.

    The order gives the number.
    """
    locations = [device.location for device in devices]
    if len(set(locations)) == len(locations) and not any("//" in location for location in locations):
        return tuple(devices)
    counts: dict[str, int] = {}
    result: list[HostDevice] = []
    for device in devices:
        location = device.location.partition("//")[0]
        rank = counts.get(location, 0)
        counts[location] = rank + 1
        numbered_location = f"{location}//{rank}" if rank else location
        result.append(device if device.location == numbered_location else replace(device, location=numbered_location))
    return tuple(result)


def _walk_up(cache: LookCache, directory: str) -> tuple[list[str], str, bool]:
    """Return the parts from the root down, a subsystem on the path that only udev knows, and whether a transport is
    known.
    """
    parts: list[str] = []
    unknown_subsystem, last_subsystem, has_transport = "", "", False
    while directory.startswith("/sys/devices/"):
        directory, _, name = directory.rpartition("/")
        subsystem = cache.read_link_name(f"{directory}/{name}/subsystem")
        if isinstance(subsystem, Absent):
            last_subsystem = ""
            continue
        has_transport = has_transport or subsystem in {"usb", "platform", "virtio"}
        if subsystem == last_subsystem:
            continue  # of consecutive devices on one bus the lowest counts: bridges and hubs add nothing
        part = _make_part(subsystem, name)
        if part:
            parts.insert(0, part)
        elif subsystem in _UDEV_ONLY:
            unknown_subsystem = unknown_subsystem or subsystem
        last_subsystem = subsystem
    return parts, unknown_subsystem, has_transport


def _make_part(subsystem: str, name: str) -> str:
    if subsystem == "usb":
        port = name.partition("-")[2]
        return f"usb-0:{port}" if port else ""
    return f"{subsystem}-{name}" if subsystem in {"pci", "platform"} else ""
