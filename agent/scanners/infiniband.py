"""Source `infiniband`: every RDMA device, of hardware or of software."""

from __future__ import annotations

from agent.scanners.infiniband_words import INFINIBAND
from agent.scanners.path_id import get_device_location
from agent.scanners.subsystem import make_scanner
from agent.scanners.word_table import LookCache

KIND = "infiniband"
DEFAULT_IDS: tuple[str, ...] = ("{pci.address}-rdma", "{name}-rdma")
TABLE = INFINIBAND


def _build_location(cache: LookCache, directory: str, name: str) -> str:
    """Return the location of the hardware, else the name. A function has one RDMA device, and udev may rename it."""
    return get_device_location(cache, directory) or name


scan, is_affected, is_same_device, list_directories = make_scanner(KIND, "infiniband", _build_location)
