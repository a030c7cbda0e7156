"""Which of many are others than before, told by their identity: they are compared, and not looked into."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress, count
from operator import is_not
from typing import TypeVar

T = TypeVar("T")


def trim_common_ends(before: Sequence[T], now: Sequence[T]) -> tuple[Sequence[T], Sequence[T]]:
    """What is left of two sequences without the beginning and the end that they have in common."""
    most = min(len(before), len(now))
    first = next(compress(count(), map(is_not, before, now)), most)
    last = next(compress(count(), map(is_not, reversed(before), reversed(now))), most)
    last = min(last, most - first)
    return before[first : len(before) - last], now[first : len(now) - last]
