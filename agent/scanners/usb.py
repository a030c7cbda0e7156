"""Source `usb`: every USB device except hubs, root hubs and interfaces."""

from __future__ import annotations

from agent.core.language.value import Absent
from agent.scanners.path_id import build_bus_path
from agent.scanners.subsystem import make_scanner
from agent.scanners.usb_words import USB
from agent.scanners.word_table import LookCache

KIND = "usb"
# A port begins with the number of its bus. With several controllers, bus numbers can differ after each boot. The
# location names the controller. On one controller, ports of its slow and fast bus may have the same name.
DEFAULT_IDS: tuple[str, ...] = (
    "{vendor}:{product}-{serial}",
    "{vendor}:{product}@{path_id}",
    "{vendor}:{product}@{port}",
)
TABLE = USB

_HUB = "09"  # bDeviceClass of hubs (USB 2.0, 11.23.1)


def _is_device(cache: LookCache, directory: str, name: str) -> bool:
    if ":" in name or not name[:1].isdecimal():  # an interface, or usbN, the root hub of the controller
        return False
    return cache.read_text(f"{directory}/bDeviceClass") != _HUB


def _build_location(cache: LookCache, directory: str, name: str) -> str:
    """Return the ports from the controller to the device.

    One controller has two buses, with ports of the same numbers.
    """
    bus_path = build_bus_path(cache, directory)
    if not bus_path:
        return name
    bus = next((part for part in directory.split("/") if part.startswith("usb") and part[3:].isdecimal()), "")
    version = cache.read_text(f"{directory.partition(f'/{bus}/')[0]}/{bus}/version") if bus else ""
    is_superspeed = not isinstance(version, Absent) and version.startswith("3")
    return f"{bus_path}/usb3" if is_superspeed else bus_path


scan, is_affected, is_same_device, list_directories = make_scanner(KIND, "usb", _build_location, _is_device)
