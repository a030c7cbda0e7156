"""The bases of every value: structs that msgspec makes in C, for a twentieth of what a dataclass costs to define.

`Struct` is frozen: two are equal if they have the same class and equal fields, and it can be hashed if its fields can
be. `MutableStruct` is for the few objects that are filled step by step; it cannot be hashed. Both have slots: only a
class with `dict=True` may have cached properties. mypy checks the types of fields. `convert` checks the types of values
from a file.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import TYPE_CHECKING, TypeVar, dataclass_transform

import msgspec
from msgspec import convert, field
from msgspec.structs import asdict

if TYPE_CHECKING:  # mypy checks the field names of a call of this `replace`, but not of that of msgspec
    from dataclasses import replace  # noqa: TID251
else:
    from msgspec.structs import replace

__all__ = ["MutableStruct", "Struct", "asdict", "convert", "field", "ignore_in_comparison", "replace"]

_S = TypeVar("_S", bound="Struct")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
class Struct(msgspec.Struct, frozen=True):
    """A frozen value."""


class MutableStruct(msgspec.Struct):
    """An object with fields that can be set."""


def ignore_in_comparison(*names: str) -> Callable[[type[_S]], type[_S]]:
    """Return a class decorator that leaves the fields with these names out of comparison and hash.

    Raises:
        TypeError: the class has no such field.
    """

    def decorate(struct: type[_S]) -> type[_S]:
        fields = struct.__struct_fields__
        if unknown := set(names).difference(fields):
            raise TypeError(f"{struct.__name__} has no field {', '.join(sorted(unknown))}")
        get_values = attrgetter(*(name for name in fields if name not in names))

        def is_equal(self: _S, other: object) -> bool:
            return get_values(self) == get_values(other) if other.__class__ is self.__class__ else NotImplemented

        def compute_hash(self: _S) -> int:
            return hash(get_values(self))

        for name, method in (("__eq__", is_equal), ("__hash__", compute_hash)):
            setattr(struct, name, method)
        return struct

    return decorate
