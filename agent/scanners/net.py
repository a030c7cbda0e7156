"""Source `net`: every network interface of the host, of hardware or not."""

from __future__ import annotations

from agent.core.language.value import Absent
from agent.scanners.net_words import NET
from agent.scanners.path_id import get_device_location
from agent.scanners.subsystem import make_scanner
from agent.scanners.word_table import LookCache

KIND = "net"
DEFAULT_IDS: tuple[str, ...] = ("{pci.address}-net", "{name}-net")
TABLE = NET


def _build_location(cache: LookCache, directory: str, name: str) -> str:
    """Return the location and the port of the hardware, because udev renames interfaces. For others return the name."""
    location = get_device_location(cache, directory)
    if not location:
        return name
    port_name = cache.read_text(f"{directory}/phys_port_name")
    port = port_name if isinstance(port_name, str) and port_name else cache.read_text(f"{directory}/dev_port")
    return location if isinstance(port, Absent) or port in {"", "0", "p0"} else f"{location}/{port}"


scan, is_affected, is_same_device, list_directories = make_scanner(KIND, "net", _build_location)
