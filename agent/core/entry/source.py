"""Sources: where an entry or a join finds host devices."""

from __future__ import annotations

from agent.core.struct import Struct


class Source(Struct):
    """One source: its kind and its arguments. node and dir have patterns, subsystem has one name, fixed has names.

    A source is a tuple, because it is a dictionary key of the listing.
    """

    kind: str
    arguments: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return the source as text: the kind and its arguments."""
        return " ".join((self.kind, *self.arguments))
