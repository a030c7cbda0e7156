"""Preferring: which of the offered ids a container had better get. Never fails, never depends on input order."""

from __future__ import annotations

from collections.abc import Sequence

from agent.core.value import natural


def prefer(available: Sequence[str], must_include: Sequence[str], size: int) -> tuple[str, ...]:
    """`size` ids: all that must be included, then the others in natural order.

    Empty where that is impossible: too few offered, too many forced, something forced that is not offered.
    """
    offered = set(available)
    forced = set(must_include)
    if not forced <= offered or not len(forced) <= size <= len(offered):
        return ()
    rest = sorted(offered - forced, key=natural)
    return tuple(sorted((*forced, *rest[: size - len(forced)]), key=natural))
