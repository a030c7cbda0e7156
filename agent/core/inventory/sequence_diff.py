"""Find changes in long sequences by object identity, without reading the items."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress, count
from operator import is_not
from typing import TypeVar

T = TypeVar("T")


def trim_common_ends(old: Sequence[T], new: Sequence[T]) -> tuple[Sequence[T], Sequence[T]]:
    """Return two sequences without their common beginning and common end."""
    max_length = min(len(old), len(new))
    prefix_length = next(compress(count(), map(is_not, old, new)), max_length)
    suffix_length = next(compress(count(), map(is_not, reversed(old), reversed(new))), max_length)
    suffix_length = min(suffix_length, max_length - prefix_length)
    return old[prefix_length : len(old) - suffix_length], new[prefix_length : len(new) - suffix_length]
