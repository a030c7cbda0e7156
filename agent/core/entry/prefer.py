"""`prefer`: the rules by which devices are chosen among free ones, and `links`, by which they know who is near."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from agent.core.entry.file_words import FilePath
from agent.core.entry.joins import DerivedWord
from agent.core.language.value import ValueType
from agent.core.struct import Struct, field

PCIE = "pcie"


class Cost(Struct):
    """`cost`: how far the other end of a link is; less is nearer.

    by: the word of the link that says; None where it is always `otherwise`. exact: by its canonical text, of `kind`.
    otherwise: for all other values, and where the word is not there; None if nothing is said of these.
    """

    word: str | None = None
    kind: ValueType = ValueType.TEXT
    exact: Mapping[str, int] = field(default_factory=dict)
    default: int | None = None


class Links(Struct):
    """`[links.NAME]` whose links are directories: `theirs` of a link is `ours` of the device at its other end.

    own: words of a link. kind: of both words.
    """

    name: str
    directory: FilePath
    derived_words: Mapping[str, DerivedWord]
    link_word: str
    device_word: str
    kind: ValueType
    cost: Cost


class Scores(Struct):
    """`[links.NAME]` whose links are lines of a file, "one other score": `ours` is the word that names the ends.

    cost: by the score; None where the score is a number, and the cost itself.
    """

    name: str
    file: str
    device_word: str
    kind: ValueType
    cost: Cost | None = None


class WordRule(Struct):
    """`{ VERB = "word" }`: "same", "packed", "balanced" or "order" by what a word says."""

    verb: str
    word: str


class DistanceRule(Struct):
    """`{ near = "pcie" }`, or by links."""

    links: Links | Scores | None = None


PreferRule: TypeAlias = WordRule | DistanceRule
