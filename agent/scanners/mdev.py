"""Source `mdev`: every mediated device."""

from __future__ import annotations

from agent.scanners.mdev_words import MDEV
from agent.scanners.subsystem import make_scanner

KIND = "mdev"
DEFAULT_IDS: tuple[str, ...] = ("{uuid}",)
TABLE = MDEV

scan, is_affected, is_same_device, list_directories = make_scanner(KIND, "mdev", lambda _sight, _directory, name: name)
