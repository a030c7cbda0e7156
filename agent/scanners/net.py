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


def _place(sight: LookCache, directory: str, name: str) -> str:
    """Of hardware its place and the port there, as udev renames it once or twice; of others the name."""
    sits = get_device_location(sight, directory)
    if not sits:
        return name
    named = sight.read_text(f"{directory}/phys_port_name")
    port = named if isinstance(named, str) and named else sight.read_text(f"{directory}/dev_port")
    return sits if isinstance(port, Absent) or port in {"", "0", "p0"} else f"{sits}/{port}"


scan, is_affected, is_same_device, list_directories = make_scanner(KIND, "net", _place)
