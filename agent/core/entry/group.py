"""Groups: how an entry says that host devices go together, and what each of them says to that.

Two are in one group if they are equal in one of the words, or are both so with a third, however far that goes on. A
device that has none of the words is alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from agent.core.language.clause import Clause
from agent.core.language.value import Absent, Scalar, Value, ValueType, make_comparable
from agent.core.struct import Struct, field, not_compared

GroupKey: TypeAlias = tuple[int, Scalar]  # which of the words, and what it says, `comparable`

_SINGLE_GROUP: GroupKey = (-1, "")  # of parts that nothing keeps apart


class GroupWord(Struct):
    """A word by which devices are together."""

    word: str
    kind: ValueType


@not_compared("digest")
class Grouping(Struct):
    """`group` of an entry.

    claims: whatever is in the group comes along, matched or not.
    parts: by name; together they make one device, each once.
    digest: of all that says which host devices are put together, `match` and the source too.
    """

    words: tuple[GroupWord, ...] = ()
    includes_unmatched: bool = False
    member_clauses: Mapping[str, Clause] = field(default_factory=dict)
    digest: str = ""


def compute_group_keys(grouping: Grouping, fact: Callable[[str], Value | Absent]) -> tuple[GroupKey, ...]:
    """What the words say of a device; those that are absent tie it to nobody."""
    if not grouping.words:
        return (_SINGLE_GROUP,)
    keys: list[GroupKey] = []
    for index, group_word in enumerate(grouping.words):
        value = fact(group_word.word)
        if not isinstance(value, Absent | tuple):
            keys.append((index, make_comparable(group_word.kind, value)))
    return tuple(keys)
