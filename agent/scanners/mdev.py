"""Source `mdev`: every mediated device that was made."""

from __future__ import annotations

from agent.scanners.mdev_words import MDEV
from agent.scanners.subsystem import of

KIND = "mdev"
DEFAULT_IDS: tuple[str, ...] = ("{uuid}",)
TABLE = MDEV

scan, concerns, same, directories = of(KIND, "mdev", lambda _sight, _directory, name: name)
