"""Derived words that read files: the content of the files that match a path, or their names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from agent.core.entry.joins import Join, WordReader
from agent.core.language.glob import escape_glob
from agent.core.language.template import Slot, apply_filters, is_name
from agent.core.language.value import Absent, Scalar, Value, ValueType, format_scalar, parse_kernel_text
from agent.core.struct import Struct, replace


class FilePath(Struct):
    """A path in its shortest form.

    constant: the whole path, if the path has no word in it. Otherwise its beginning.
    pieces: the texts and slots of the path, if the path has words in it.
    join: the join whose partner the path belongs to. None: the device itself.

    The value of a word is a file name or a part of one. The value cannot be a glob or lead to another directory.
    """

    constant: str
    pieces: tuple[str | Slot, ...] = ()
    join: Join | None = None

    def write(self, facts: WordReader) -> str | Absent:
        """Return the path with the values of its words, or absent if a word has no usable value."""
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
        """Return the content of each file that matches."""
        reader_and_path = self._resolve(facts)
        return (
            reader_and_path
            if isinstance(reader_and_path, Absent)
            else reader_and_path[0].read_texts(reader_and_path[1])
        )

    def list_names(self, facts: WordReader) -> Sequence[str] | Absent:
        """Return the names of all files that match."""
        reader_and_path = self._resolve(facts)
        return (
            reader_and_path
            if isinstance(reader_and_path, Absent)
            else reader_and_path[0].list_names(reader_and_path[1])
        )

    def list_directories(self, facts: WordReader) -> Sequence[WordReader]:
        """Return the directories that match, each as a device of its own. Return nothing if the path has no value."""
        reader_and_path = self._resolve(facts)
        return () if isinstance(reader_and_path, Absent) else reader_and_path[0].list_directories(reader_and_path[1])

    def pick_single(self, texts: Sequence[str | Absent] | Absent, facts: WordReader) -> str | Absent:
        """Return the only text. If several texts match, the result is unreadable, not nonexistent.

        If several directories match on the way to a file, directories without the file do not count.
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
        """Return the reader that the path belongs to, and the path."""
        path, reader = self.write(facts), facts if self.join is None else facts.find_partner(self.join)
        if isinstance(path, Absent):
            return path
        return reader if isinstance(reader, Absent) else (reader, path)


class FileText(Struct):
    """The content of one file (`read = "PATH"`)."""

    path: FilePath
    kind: ValueType

    def compute_value(self, facts: WordReader) -> Value | Absent:
        """Return the content of the file, parsed as the type."""
        return parse_value(self.kind, self.path.pick_single(self.path.read_texts(facts), facts))


class FileTexts(Struct):
    """The content of all files that match (`read_all = "PATH"`). Nonexistent and empty files are left out."""

    path: FilePath
    kind: ValueType

    def compute_value(self, facts: WordReader) -> Value | Absent:
        """Return the content of all present files. The value is absent if one file is unreadable."""
        return _parse_present(self.kind, self.path.read_texts(facts))


class FileNames(Struct):
    """The names of all files that match (`names_of = "PATH"`)."""

    path: FilePath
    kind: ValueType

    def compute_value(self, facts: WordReader) -> Value | Absent:
        """Return the names, parsed as the type."""
        return _parse_present(self.kind, self.path.list_names(facts))


class FileName(Struct):
    """The name of the only file that matches (`name_of = "PATH"`)."""

    path: FilePath
    kind: ValueType

    def compute_value(self, facts: WordReader) -> Value | Absent:
        """Return the name, parsed as the type."""
        return parse_value(self.kind, self.path.pick_single(self.path.list_names(facts), facts))


class FileField(Struct):
    """A field of a file (`field = "NAME", of = "PATH"`), from the first line that has the field."""

    name: str
    path: FilePath
    kind: ValueType

    def compute_value(self, facts: WordReader) -> Value | Absent:
        """Return the value of the field, or absent if no line has the field."""
        text = self.path.pick_single(self.path.read_texts(facts), facts)
        if isinstance(text, Absent):
            return text
        for line in text.splitlines():
            value = _find_field(self.name, line.strip())
            if value is not None:
                return parse_value(self.kind, value)
        return Absent(f"no line of it is {self.name!r} with a value")


def parse_value(kind: ValueType, text: str | Absent) -> Scalar | Absent:
    """Return the value of a text. A text of another type is unreadable. An empty text is nonexistent."""
    if isinstance(text, Absent):
        return text
    if not text:
        return Absent("is empty")
    value = parse_kernel_text(kind, text)
    return replace(value, unreadable=True) if isinstance(value, Absent) else value


def parse_values(kind: ValueType, texts: Iterable[str]) -> tuple[Scalar, ...] | Absent:
    """Return the values of all texts, or absent if one text is not of the type."""
    values: list[Scalar] = []
    for text in texts:
        value = parse_value(kind, text)
        if isinstance(value, Absent):
            return value
        values.append(value)
    return tuple(values)


def _parse_present(kind: ValueType, texts: Sequence[str | Absent] | Absent) -> Value | Absent:
    """Return the values of all present texts, or absent if one of the texts is unreadable or pending."""
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
    """Return the value of a field in a line, or None.

    The value follows `:` or `=`. Blanks are enough if the name of the field is one word.
    """
    if not line.startswith(name):
        return None
    remainder = line[len(name) :]
    value = remainder.lstrip()
    if value[:1] in {":", "="}:
        return value[1:].strip()
    return value if value and len(value) < len(remainder) and len(name.split()) == 1 else None


def _format_slot(slot: Slot, facts: WordReader, *, at_name_start: bool) -> str | Absent:
    """Return the value of a slot as a part of a path, or absent if the value cannot be in a path.

    at_name_start: a file name begins with the value.
    """
    value = facts(slot.word)
    if isinstance(value, Absent):
        return value.prefix_reason(slot.word)
    if isinstance(value, tuple):
        return Absent(f"{slot.word} is a list")
    text = apply_filters(format_scalar(value), slot.filters)
    if not is_name(text) or (at_name_start and text.startswith(".")):
        return Absent(f"{slot.word}: {text[:64]!r} cannot be in a path")
    return escape_glob(text)
