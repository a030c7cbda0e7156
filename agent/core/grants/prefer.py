"""Preferring: which of the offered ids a container had better get. Never fails, never depends on input order."""

from __future__ import annotations

from collections.abc import Sequence

from agent.core.entry.resource import Limit
from agent.core.inventory.device import split_share
from agent.core.language.value import natural

NO_LIMIT = Limit()


def prefer(
    available: Sequence[str], must_include: Sequence[str], size: int, limit: Limit = NO_LIMIT
) -> tuple[str, ...]:
    """`size` ids: all that must be included, then the others in natural order, within the limit.

    Empty where that is impossible: too few offered, too many forced, something forced that is not offered.
    """
    offered = set(available)
    forced = set(must_include)
    if not forced <= offered or not len(forced) <= size <= len(offered):
        return ()
    if limit.per_container is not None and size > limit.per_container:
        return ()
    rest = sorted(offered - forced, key=natural)
    if limit.distinct:
        rest = _distinct(rest, forced)
        if len(forced) + len(rest) < size or len(_devices(forced)) < len(forced):
            return ()
    return tuple(sorted((*forced, *rest[: size - len(forced)]), key=natural))


def _distinct(ids: Sequence[str], forced: set[str]) -> list[str]:
    """The first share of each device that is in none of the forced ids."""
    first: dict[object, str] = {}
    for id in ids:  # noqa: A001  the API's own word
        first.setdefault(split_share(id)[0], id)
    taken = _devices(forced)
    return [id for form, id in first.items() if form not in taken]  # noqa: A001


def _devices(ids: set[str]) -> set[object]:
    return {split_share(id)[0] for id in ids}  # noqa: A001
