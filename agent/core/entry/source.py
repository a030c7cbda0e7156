"""Sources: where an entry, or a join, looks for devices."""

from __future__ import annotations

from typing import NamedTuple


class Source(NamedTuple):
    """A place to look: its kind and what the kind needs (node, dir: patterns; subsystem: one name; fixed: names).

    A tuple, for it is the key of all that is listed.
    """

    kind: str
    arguments: tuple[str, ...] = ()

    def __str__(self) -> str:
        """As people say it."""
        return " ".join((self.kind, *self.arguments))
