"""Own words that read: what files below a path say, and what fits it is called."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from agent.core.entry.joins import Join, WordReader
from agent.core.language.glob import escape_glob
from agent.core.language.template import Slot, apply_filters, is_name
from agent.core.language.value import Absent, Scalar, Value, ValueType, format_scalar, parse_kernel_text
from agent.core.struct import Struct, replace


class FilePath(Struct):
    """A path in its shortest form. `whole`: all of it, if it has no word in it. `join`: whose partner's path it is.

    A word is one name or a part of one, never a pattern and never a way elsewhere.
    """

    constant: str
    pieces: tuple[str | Slot, ...] = ()
    join: Join | None = None

    def write(self, facts: WordReader) -> str | Absent:
        """The path with its words filled in."""
        if not self.pieces:
            return self.constant
        path = ""
        for piece in self.pieces:
            if isinstance(piece, str):
                path += piece
                continue
            piece_text = _format_slot(piece, facts, at_name_start=path.endswith("/"))
            if isinstance(piece_text, Absent):
                return piece_text
            path += piece_text
        return path

    def read_texts(self, facts: WordReader) -> Sequence[str | Absent] | Absent:
        """What each file says that fits."""
        resolved = self._resolve(facts)
        return resolved if isinstance(resolved, Absent) else resolved[0].read_texts(resolved[1])

    def list_names(self, facts: WordReader) -> Sequence[str] | Absent:
        """The names of what fits."""
        resolved = self._resolve(facts)
        return resolved if isinstance(resolved, Absent) else resolved[0].list_names(resolved[1])

    def list_directories(self, facts: WordReader) -> Sequence[WordReader]:
        """The directories that fit, each a thing of its own; none where that cannot be told."""
        resolved = self._resolve(facts)
        return () if isinstance(resolved, Absent) else resolved[0].list_directories(resolved[1])

    def pick_single(self, texts: Sequence[str | Absent] | Absent, facts: WordReader) -> str | Absent:
        """The one of what fits; what is there several times is there, and yet cannot be read.

        Where several directories fit on the way to a file, those without it do not count.
        """
        if isinstance(texts, Absent):
            return texts
        if len(texts) == 1:
            return texts[0]
        present_texts = [text for text in texts if not isinstance(text, Absent) or text.unreadable]
        if len(present_texts) == 1:
            return present_texts[0]
        if not present_texts:
            return Absent(f"nothing fits {self.write(facts)}")
        return Absent(f"ambiguous: {len(present_texts)} fit {self.write(facts)}", unreadable=True)

    def _resolve(self, facts: WordReader) -> tuple[WordReader, str] | Absent:
        """Whose path it is, and the path."""
        path, reader = self.write(facts), facts if self.join is None else facts.find_partner(self.join)
        if isinstance(path, Absent):
            return path
        return reader if isinstance(reader, Absent) else (reader, path)


class FileText(Struct):
    """`read = "PATH"`."""

    path: FilePath
    kind: ValueType

    def compute_value(self, facts: WordReader) -> Value | Absent:
        """See `Own`."""
        return parse_value(self.kind, self.path.pick_single(self.path.read_texts(facts), facts))


class FileTexts(Struct):
    """`read_all = "PATH"`: what all that fit say; what is not there and what is empty is left out."""

    path: FilePath
    kind: ValueType

    def compute_value(self, facts: WordReader) -> Value | Absent:
        """See `Own`."""
        return _parse_present(self.kind, self.path.read_texts(facts))


class FileNames(Struct):
    """`names_of = "PATH"`: what all that fits is called."""

    path: FilePath
    kind: ValueType

    def compute_value(self, facts: WordReader) -> Value | Absent:
        """See `Own`."""
        return _parse_present(self.kind, self.path.list_names(facts))


class FileName(Struct):
    """`name_of = "PATH"`: what the one that fits is called."""

    path: FilePath
    kind: ValueType

    def compute_value(self, facts: WordReader) -> Value | Absent:
        """See `Own`."""
        return parse_value(self.kind, self.path.pick_single(self.path.list_names(facts), facts))


class FileField(Struct):
    """`field = "NAME", of = "PATH"`: that field of the one file that fits, from its first line that has it."""

    name: str
    path: FilePath
    kind: ValueType

    def compute_value(self, facts: WordReader) -> Value | Absent:
        """See `Own`."""
        text = self.path.pick_single(self.path.read_texts(facts), facts)
        if isinstance(text, Absent):
            return text
        for line in text.splitlines():
            value = _find_field(self.name, line.strip())
            if value is not None:
                return parse_value(self.kind, value)
        return Absent(f"no line of it is {self.name!r} with a value")


def parse_value(kind: ValueType, text: str | Absent) -> Scalar | Absent:
    """What a text says as that kind; what is there and says nothing of the kind is not simply missing."""
    if isinstance(text, Absent):
        return text
    if not text:
        return Absent("is empty")
    value = parse_kernel_text(kind, text)
    return replace(value, unreadable=True) if isinstance(value, Absent) else value


def parse_values(kind: ValueType, texts: Iterable[str]) -> tuple[Scalar, ...] | Absent:
    """What each of these texts says; absent if one of them says nothing of the kind."""
    values: list[Scalar] = []
    for text in texts:
        value = parse_value(kind, text)
        if isinstance(value, Absent):
            return value
        values.append(value)
    return tuple(values)


def _parse_present(kind: ValueType, texts: Sequence[str | Absent] | Absent) -> Value | Absent:
    """What those say that are there; absent if one of them could not be read."""
    if isinstance(texts, Absent):
        return texts
    values: list[Scalar] = []
    for text in texts:
        value = parse_value(kind, text)
        if not isinstance(value, Absent):
            values.append(value)
        elif value.unreadable or value.pending:
            return value
    return tuple(values)


def _find_field(name: str, line: str) -> str | None:
    """What a line says of a field: after `:` or `=`, or after blanks if the field's name is one word."""
    if not line.startswith(name):
        return None
    remainder = line[len(name) :]
    value = remainder.lstrip()
    if value[:1] in {":", "="}:
        return value[1:].strip()
    return value if value and len(value) < len(remainder) and len(name.split()) == 1 else None


def _format_slot(slot: Slot, facts: WordReader, *, at_name_start: bool) -> str | Absent:
    """What a word puts into a path; `begins`: a name begins with it."""
    value = facts(slot.word)
    if isinstance(value, Absent):
        return value.prefix_reason(slot.word)
    if isinstance(value, tuple):
        return Absent(f"{slot.word} is a list")
    text = apply_filters(format_scalar(value), slot.filters)
    if not is_name(text) or (at_name_start and text.startswith(".")):
        return Absent(f"{slot.word}: {text[:64]!r} cannot be in a path")
    return escape_glob(text)
