"""Groups: the host devices that an entry combines to one device, and their group keys.

Two host devices are in one group if they have an equal value of a group word. A chain of equal values also connects
two devices. A device without values is a group of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from agent.core.language.clause import Clause
from agent.core.language.value import Absent, Scalar, Value, ValueType, make_comparable
from agent.core.struct import Struct, field, ignore_in_comparison

GroupKey: TypeAlias = tuple[int, Scalar]  # index of the group word, and its value in comparable form

_SINGLE_GROUP: GroupKey = (-1, "")  # key of all devices if the group has members and no word


class GroupWord(Struct):
    """A word whose equal values put host devices into one group."""

    word: str
    kind: ValueType


@ignore_in_comparison("digest")
class Grouping(Struct):
    """The `group` of an entry.

    includes_unmatched: the group contains all its host devices, also those that do not match (`claims = "all"`).
    member_clauses: the clause of each named member (`group.parts`). One host device for each name makes one device.
    digest: the digest of all settings that decide the groups, `match` and the source too.
    """

    words: tuple[GroupWord, ...] = ()
    includes_unmatched: bool = False
    member_clauses: Mapping[str, Clause] = field(default_factory=dict)
    digest: str = ""


def compute_group_keys(grouping: Grouping, fact: Callable[[str], Value | Absent]) -> tuple[GroupKey, ...]:
    """Return the group keys of a device. An absent value makes no key."""
    if not grouping.words:
        return (_SINGLE_GROUP,)
    keys: list[GroupKey] = []
    for index, group_word in enumerate(grouping.words):
        value = fact(group_word.word)
        if not isinstance(value, Absent | tuple):
            keys.append((index, make_comparable(group_word.kind, value)))
    return tuple(keys)
