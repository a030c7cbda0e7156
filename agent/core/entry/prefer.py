"""Preferences: the rules that choose among free devices (`prefer`), and the links that define the distance of
devices.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from agent.core.entry.file_words import FilePath
from agent.core.entry.joins import DerivedWord
from agent.core.language.value import ValueType
from agent.core.struct import Struct, field

PCIE = "pcie"


class Cost(Struct):
    """The cost of a link. A smaller cost is a shorter distance.

    word: the word of the link that decides the cost. None: always `default`.
    exact: costs by value in canonical form, of type `kind`.
    default: the cost for all other values and for an absent word. None: other links have no cost.
    """

    word: str | None = None
    kind: ValueType = ValueType.TEXT
    exact: Mapping[str, int] = field(default_factory=dict)
    default: int | None = None


class Links(Struct):
    """A `[links.NAME]` table whose links are directories. `link_word` of a link equals `device_word` of the device
    at its other end.

    derived_words: the words of a link.
    kind: the type of both words.
    """

    name: str
    directory: FilePath
    derived_words: Mapping[str, DerivedWord]
    link_word: str
    device_word: str
    kind: ValueType
    cost: Cost


class Scores(Struct):
    """A `[links.NAME]` table whose links are lines of a file, "one other score". `device_word` names both ends.

    cost: the cost by score. None: the score is a number and is the cost.
    """

    name: str
    file: str
    device_word: str
    kind: ValueType
    cost: Cost | None = None


class WordRule(Struct):
    """One rule `{ VERB = "word" }`. verb: "same", "packed", "balanced" or "order"."""

    verb: str
    word: str


class DistanceRule(Struct):
    """One rule `{ near = "pcie" }` or `{ near = "LINKS" }`. links: None for PCI Express."""

    links: Links | Scores | None = None


PreferRule: TypeAlias = WordRule | DistanceRule
