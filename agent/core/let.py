"""Own words: what `options` and `let` define, each a small value that says what it is of a host device."""

from __future__ import annotations

from dataclasses import dataclass, replace

from agent.core.own import Asked
from agent.core.pattern import literal
from agent.core.text import Slot, Text, filtered, is_name
from agent.core.value import Absent, Kind, Value, from_kernel, text_of


@dataclass(frozen=True, slots=True)
class Constant:
    """`options.NAME`: what the entry chose."""

    value: Value

    def say(self, facts: Asked) -> Value | Absent:
        """See `Own`."""
        del facts
        return self.value


@dataclass(frozen=True, slots=True)
class Captured:
    """A `{word:type}` of the source's pattern."""

    word: str

    def say(self, facts: Asked) -> Value | Absent:
        """See `Own`."""
        return facts.captured(self.word)


@dataclass(frozen=True, slots=True)
class Path:
    """A path as written. A word in it is a piece of a name, never a pattern and never a way (rulings 28)."""

    text: Text
    glob: bool

    def write(self, facts: Asked) -> str | Absent:
        """The path with its words filled in."""
        if not self.text.slots:
            return self.text.source
        written = ""
        for piece in self.text.pieces:
            said = piece if isinstance(piece, str) else _piece(piece, facts)
            if isinstance(said, Absent):
                return said
            if isinstance(piece, Slot) and written.endswith("/") and said.startswith("."):
                return Absent(f"{piece.word}: {said[:64]!r} begins with a dot, which no name in a path may")
            written += said
        return written


@dataclass(frozen=True, slots=True)
class Read:
    """`read = "PATH"`: what the one file that fits says."""

    path: Path
    kind: Kind

    def say(self, facts: Asked) -> Value | Absent:
        """See `Own`."""
        path = self.path.write(facts)
        texts = path if isinstance(path, Absent) else facts.texts(path)
        if isinstance(texts, Absent):
            return texts
        if not texts:
            return Absent(f"nothing fits {path}")
        if len(texts) > 1:
            return Absent(f"ambiguous: {len(texts)} fit {path}", unread=True)
        return parsed(self.kind, texts[0])


@dataclass(frozen=True, slots=True)
class Same:
    """`read = "word"`: what another word says."""

    word: str

    def say(self, facts: Asked) -> Value | Absent:
        """See `Own`."""
        return facts(self.word)


def parsed(kind: Kind, text: str | Absent) -> Value | Absent:
    """What a text says as that kind. What is there and says nothing of the kind is not simply missing."""
    if isinstance(text, Absent):
        return text
    if not text:
        return Absent("the file is empty")
    value = from_kernel(kind, text)
    return replace(value, unread=True) if isinstance(value, Absent) else value


def _piece(slot: Slot, facts: Asked) -> str | Absent:
    """What a word puts into a path: one name or a part of one, in which no character means more than itself."""
    value = facts(slot.word)
    if isinstance(value, Absent):
        return Absent(f"{slot.word}: {value.reason}", value.unread, value.pending)
    if isinstance(value, tuple):
        return Absent(f"{slot.word} is a list")
    text = filtered(text_of(value), slot.filters)
    return literal(text) if is_name(text) else Absent(f"{slot.word}: {text[:64]!r} cannot be in a path")
