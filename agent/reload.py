"""Reloading by difference: what a new configuration changes, so that everything else keeps its stream."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agent.core.entry.resource import ResourceSpec


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
    before, after = _by_name(old), _by_name(new)
    known = [name for name in after if name in before]
    moved = tuple(name for name in known if after[name][0].registration != before[name][0].registration)
    same = tuple(
        name for name in known if [each.meaning() for each in after[name]] == [each.meaning() for each in before[name]]
    )
    return Difference(
        unchanged=same,
        changed=tuple(name for name in known if name not in same and name not in moved),
        moved=moved,
        added=tuple(name for name in after if name not in before),
        removed=tuple(name for name in before if name not in after),
    )


def _by_name(specs: Sequence[ResourceSpec]) -> dict[str, list[ResourceSpec]]:
    """The entries of each resource, what adds to it included; the one whose name it is comes first."""
    named: dict[str, list[ResourceSpec]] = {}
    for spec in specs:
        named.setdefault(spec.name, []).append(spec)
    return named
