"""One engine for changes: a value is computed again only if one of its inputs is a different object.

So an unchanged value passes on as the same object, and later stages skip it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import compress, count
from operator import is_not
from typing import Generic, TypeVar

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")


class Stage(Generic[K, T, V]):
    """The values that a function gives for the items of a mapping.

    compute: a function of the key, the item, and the other inputs. It depends on nothing else.
    No input may change after an update: a changed value is a new object in a new mapping.

    Attributes:
        values: the result of the last update.
    """

    def __init__(self, compute: Callable[..., V]) -> None:
        self.values: dict[K, V] = {}
        self._compute = compute
        self._items: Mapping[K, T] = {}
        self._other_inputs: tuple[object, ...] = ()

    def update(self, items: Mapping[K, T], *other_inputs: object) -> Mapping[K, V]:
        """Return the value of each item. A different item changes one value, a different other input changes all."""
        if has_changed(self._other_inputs, other_inputs):
            self.values, self._items, self._other_inputs = {}, {}, other_inputs
        changes = find_changes(self._items, items)
        new_values = {key: self._compute(key, items[key], *other_inputs) for key in changes if key in items}
        if changes:
            self.values = {**self.values}
            for key in changes:
                self.values.pop(key, None)
            self.values |= new_values
        self._items = items
        return self.values


def has_changed(old: Sequence[object], new: Sequence[object]) -> bool:
    """Return whether two sequences have different objects."""
    return len(old) != len(new) or any(map(is_not, old, new))


def find_changes(old: Mapping[K, T], new: Mapping[K, T]) -> dict[K, tuple[T | None, T | None]]:
    """Return the old and the new value of each key, if they are different objects. None means that there is none."""
    if old is new:
        return {}
    changes: dict[K, tuple[T | None, T | None]] = {key: (old[key], None) for key in old if key not in new}
    return changes | {key: (old.get(key), value) for key, value in new.items() if old.get(key) is not value}


def find_changed_objects(old: Sequence[T], new: Sequence[T]) -> tuple[list[T], list[T]]:
    """Return the objects that are only in the old, and those that are only in the new sequence, in order."""
    max_length = min(len(old), len(new))
    prefix_length = next(compress(count(), map(is_not, old, new)), max_length)
    suffix_length = next(compress(count(), map(is_not, reversed(old), reversed(new))), max_length)
    suffix_length = min(suffix_length, max_length - prefix_length)
    old, new = old[prefix_length : len(old) - suffix_length], new[prefix_length : len(new) - suffix_length]
    common_ids = set(map(id, old)).intersection(map(id, new))
    return [item for item in old if id(item) not in common_ids], [item for item in new if id(item) not in common_ids]
