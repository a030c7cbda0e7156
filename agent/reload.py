"""Reloading by difference: what a new configuration changes, so that everything else keeps its stream."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agent.core.resource import ResourceSpec


@dataclass(frozen=True, slots=True)
class Difference:
    """Resource names by what a reload does with them, each in file order.

    moved: the way of registration is another, so the endpoint is made anew; all others keep theirs.
    """

    unchanged: tuple[str, ...]
    changed: tuple[str, ...]
    moved: tuple[str, ...]
    added: tuple[str, ...]
    removed: tuple[str, ...]

    def __str__(self) -> str:
        """In one line; what is nothing is left out."""
        parts = (
            ("unchanged", self.unchanged, False),
            ("changed", self.changed + self.moved, True),
            ("added", self.added, True),
            ("removed", self.removed, True),
        )
        said = [
            f"{len(names)} {word}" + (f" ({', '.join(names)})" if named else "")
            for word, names, named in parts
            if names
        ]
        return ", ".join(said) or "no resources"


def difference(old: Sequence[ResourceSpec], new: Sequence[ResourceSpec]) -> Difference:
    """What changes from one set of entries to another. Where an entry stands in its file is no difference."""
    before = {spec.name: spec for spec in old}
    names = [spec.name for spec in new]
    known = [spec for spec in new if spec.name in before]
    moved = tuple(spec.name for spec in known if spec.registration != before[spec.name].registration)
    same = tuple(spec.name for spec in known if spec.meaning() == before[spec.name].meaning())
    return Difference(
        unchanged=same,
        changed=tuple(spec.name for spec in known if spec.name not in same and spec.name not in moved),
        moved=moved,
        added=tuple(name for name in names if name not in before),
        removed=tuple(spec.name for spec in old if spec.name not in names),
    )
