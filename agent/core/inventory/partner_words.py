"""Words that lead to a partner, and the key values that find the partner."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from agent.core.entry.joins import Join, WordReader
from agent.core.entry.partner_checks import HEALTHY
from agent.core.language.value import Absent, Scalar, Value, ValueType, make_comparable
from agent.core.struct import Struct

KeyValues: TypeAlias = tuple[Scalar, ...]


class PartnerWord(Struct):
    """`NAME.word`: the value of a word of the partner. Without a word, the usual name of the partner."""

    join: Join
    word: str = ""

    def compute_value(self, facts: WordReader) -> Value | Absent:
        """See `DerivedWord`."""
        partner = facts.find_partner(self.join)
        if isinstance(partner, Absent):
            return partner
        value = partner(self.word or "name")
        return value.prefix_reason(self.join.name) if isinstance(value, Absent) else value


def read_key_values(words: Iterable[tuple[str, ValueType]], facts: WordReader) -> KeyValues | Absent:
    """Return the values of these words in a form in which equal values are equal. Absent if one of them is absent."""
    key: list[Scalar] = []
    for word, kind in words:
        value = facts(word)
        if isinstance(value, Absent):
            return value.prefix_reason(word)
        if isinstance(value, tuple):
            return Absent(f"{word} is a list")
        key.append(make_comparable(kind, value))
    return tuple(key)


class PartnerHealthWord(Struct):
    """`NAME.healthy` and `NAME.reason`: known after the evaluation of the partner's checks, which follows the look."""

    join: Join
    word: str

    def compute_value(self, facts: WordReader) -> Value | Absent:
        """See `DerivedWord`."""
        partner = facts.find_partner(self.join)
        if isinstance(partner, Absent):
            return partner
        unhealthy_reason = facts.get_unhealthy_reason(self.join)
        if isinstance(unhealthy_reason, Absent):
            return unhealthy_reason
        return not unhealthy_reason if self.word == HEALTHY else unhealthy_reason or Absent("it is healthy")
