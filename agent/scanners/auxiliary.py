"""Source `auxiliary`: every device of the auxiliary bus, also the subfunctions of network functions."""

from __future__ import annotations

import re

from agent.scanners.auxiliary_words import AUXILIARY
from agent.scanners.path_id import build_bus_path, get_device_location, strip_numbers
from agent.scanners.subsystem import make_scanner
from agent.scanners.word_table import LookCache

KIND = "auxiliary"
DEFAULT_IDS: tuple[str, ...] = ()  # only the subfunction number is stable, and most devices have none
TABLE = AUXILIARY

_SEQUENCE_NUMBER = re.compile(r"\.[0-9]+\Z")  # `mlx5_core.sf.4`: assigned in order of creation


def _build_location(cache: LookCache, directory: str, name: str) -> str:
    location, bus_path = get_device_location(cache, directory), build_bus_path(cache, directory)
    if not location:
        return name
    return location if location != bus_path else f"{location}/{strip_numbers(_SEQUENCE_NUMBER.sub('', name))}"


scan, is_affected, is_same_device, list_directories = make_scanner(KIND, "auxiliary", _build_location)
