"""Own words: those that an entry brings with it, and what they may ask when they say what they are of a device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from agent.core.logic import Knowledge
from agent.core.value import Absent, Value


class Asked(Knowledge, Protocol):
    """The facts of one host device within one entry."""

    def captured(self, word: str) -> Value | Absent:
        """What the source's pattern took for a word."""

    def texts(self, path: str) -> Sequence[str | Absent] | Absent:
        """What each file says that fits a path, in natural order; of a path without a glob always one."""

    def names(self, path: str) -> Sequence[str] | Absent:
        """The names of what fits a path, in natural order; absent if that could not be told."""


class Own(Protocol):
    """A word of an entry's own."""

    def say(self, facts: Asked) -> Value | Absent:
        """What it says of a host device of which `facts` tells."""
