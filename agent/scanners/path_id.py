"""Where a device sits, said as udev's ID_PATH says it (systemd, src/udev/udev-builtin-path_id.c), from sysfs alone.

Of the many buses that udev knows, pci, usb and platform are said here; virtio adds nothing, as there.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from agent.core.inventory.device import HostDevice
from agent.core.language.value import Absent
from agent.core.struct import replace
from agent.scanners.word_table import LookCache

# These have a part in ID_PATH that is not made here: rather none than another than udev's.
_UNSAID = frozenset(
    {"scsi", "scsi_tape", "nvme", "nvme-subsystem", "cciss", "bcma", "serio", "amba", "acpi"}
    | {"xen", "scm", "ccw", "ccwgroup", "ap", "iucv", "spi"}
)
_NUMBER = re.compile(r"(?<=[A-Za-z_])[0-9]+")


def build_path_id(sight: LookCache, directory: str) -> str | Absent:
    """What udev would put into ID_PATH; absent where it would put nothing, or what is not made here."""
    parts, unsaid, transport = _walk(sight, directory)
    if unsaid:
        return Absent(f"of {unsaid} devices it is known to udev only")
    if not parts:
        return Absent("it sits on no bus")
    if not any(part.startswith(("pci-", "platform-")) for part in parts):
        return Absent("nothing above it has a lasting place")
    if not transport and sight.read_link_name(f"{directory}/subsystem") == "block":
        return Absent("of such block devices udev says none")
    return "-".join(parts)


def build_bus_path(sight: LookCache, directory: str) -> str:
    """The same as far as it goes, to tell places apart; empty for a virtual device."""
    return "-".join(_walk(sight, directory)[0])


def get_device_location(sight: LookCache, directory: str) -> str:
    """The position, and the number of the subfunction if it is on one: many of these sit on one PCI function."""
    sits = build_bus_path(sight, directory)
    here = directory if sits else ""
    while here.startswith("/sys/devices/"):
        if sight.read_link_name(f"{here}/subsystem") == "auxiliary":
            number = sight.read_text(f"{here}/sfnum")
            return f"{sits}/sf{number}" if isinstance(number, str) and number.isdecimal() else sits
        here = here.rpartition("/")[0]
    return sits


def strip_numbers(name: str) -> str:
    """A device's name without the numbers that the kernel deals as devices come: `ttyUSB`, `renderD`, `mlx_`."""
    return _NUMBER.sub("", name)


def number_equal_locations(devices: Sequence[HostDevice]) -> tuple[HostDevice, ...]:
    """Those that sit in one place under one kind of name (two cameras of one stick) are told apart by their order."""
    places = [device.place for device in devices]
    if len(set(places)) == len(places) and not any("//" in place for place in places):
        return tuple(devices)
    seen: dict[str, int] = {}
    result: list[HostDevice] = []
    for device in devices:
        place = device.place.partition("//")[0]
        rank = seen.get(place, 0)
        seen[place] = rank + 1
        said = f"{place}//{rank}" if rank else place
        result.append(device if device.place == said else replace(device, place=said))
    return tuple(result)


def _walk(sight: LookCache, directory: str) -> tuple[list[str], str, bool]:
    """The parts from the root down; a subsystem on the way that is not said here; whether a transport is known."""
    parts: list[str] = []
    unsaid, last, transport = "", "", False
    while directory.startswith("/sys/devices/"):
        directory, _, name = directory.rpartition("/")
        subsystem = sight.read_link_name(f"{directory}/{name}/subsystem")
        if isinstance(subsystem, Absent):
            last = ""
            continue
        transport = transport or subsystem in {"usb", "platform", "virtio"}
        if subsystem == last:
            continue  # of a run of one bus the lowest counts: bridges and hubs above add nothing
        part = _part(subsystem, name)
        if part:
            parts.insert(0, part)
        elif subsystem in _UNSAID:
            unsaid = unsaid or subsystem
        last = subsystem
    return parts, unsaid, transport


def _part(subsystem: str, name: str) -> str:
    if subsystem == "usb":
        port = name.partition("-")[2]
        return f"usb-0:{port}" if port else ""
    return f"{subsystem}-{name}" if subsystem in {"pci", "platform"} else ""
