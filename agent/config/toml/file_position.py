"""Position of a value in a file, for findings. A merged value keeps its position."""

from __future__ import annotations

import re
from typing import Literal, TypeAlias

from agent.config.toml.document import Document, Span
from agent.config.toml.finding import Finding, Severity
from agent.core.language.clause import Origin
from agent.core.struct import Struct

_BARE = re.compile(r"[A-Za-z0-9_-]+")  # a key without quotes


class TextPiece(Struct):
    """A part of a text value, by offset and length. A finding marks this part, not the whole value."""

    at: int
    length: int


# The marked part of a finding: the value, its key, the content of a text without quotes, or a part of it.
FindingMark: TypeAlias = TextPiece | Literal["value", "key", "text"]


class FilePosition(Struct):
    """One path of one document. Two positions are equal if file and path are equal."""

    document: Document
    path: tuple[str | int, ...]

    def __eq__(self, other: object) -> bool:
        """Compare file and path. A comparison of documents would read their texts."""
        return isinstance(other, FilePosition) and self.document.name == other.document.name and self.path == other.path

    def __hash__(self) -> int:
        """Return the hash of file and path, as equality needs it."""
        return hash((self.document.name, self.path))

    def get_child(self, *steps: str | int) -> FilePosition:
        """Return the position this many steps further in."""
        return FilePosition(self.document, (*self.path, *steps))

    def list_elements(self, value: object) -> list[tuple[FilePosition, object]]:
        """Return the elements of a list with their positions. Any other value is its own only element."""
        if not isinstance(value, list):
            return [(self, value)]
        return [(self.get_child(index), item) for index, item in enumerate(value)]

    @property
    def origin(self) -> Origin:
        """Return file, line and column of the key, or of the value if there is no key."""
        element = bool(self.path) and isinstance(self.path[-1], int)
        span = self.document.find_value(self.path) if element else self.document.find_key(self.path)
        return Origin(self.document.name, span.line, span.column)

    @property
    def address(self) -> str:
        """Return the path in display form: `resource[1].give.nodes.tty`. Elements count from 1."""
        text = ""
        for step in self.path:
            text += f"[{step + 1}]" if isinstance(step, int) else f".{step}" if text else step
        return text

    @property
    def local_address(self) -> str:
        """Return the address inside the class or entry: `give.nodes.tty`."""
        is_in_entry = self.path[:2] != () and self.path[0] == "resource"
        return FilePosition(self.document, self.path[2:] if is_in_entry else self.path).address

    @property
    def data(self) -> object:
        """Return the TOML value, or None if there is none."""
        value: object = self.document.data
        for step in self.path:
            if isinstance(value, dict) and isinstance(step, str):
                value = value.get(step)
            elif isinstance(value, list) and isinstance(step, int) and step < len(value):
                value = value[step]
            else:
                return None
        return value

    @property
    def source_text(self) -> str:
        """Return the value as written in the file, on one line.

        A table from headers or dotted keys is written as an inline table.
        """
        text = self.document.get_source(self.path)
        value = self.data
        if isinstance(value, dict) and not text.startswith("{"):
            inside = (f"{_format_key(key)} = {self.get_child(key).source_text}" for key in value)
            text = f"{{ {', '.join(inside)} }}"
        return " ".join(text.split())

    def make_error(self, code: str, message: str, write: str, *, mark: FindingMark = "value") -> Finding:
        """Return an error finding at this position."""
        return self._make_finding(Severity.ERROR, code, message, write, mark)

    def make_warning(self, code: str, message: str, write: str, *, mark: FindingMark = "value") -> Finding:
        """Return a warning finding at this position."""
        return self._make_finding(Severity.WARNING, code, message, write, mark)

    def _make_finding(self, severity: Severity, code: str, message: str, write: str, mark: FindingMark) -> Finding:
        span = self.document.find_key(self.path) if mark == "key" else self._find_span(mark)
        return Finding(
            file=self.document.name,
            line=span.line,
            column=span.column,
            end_column=span.end_column,
            severity=severity,
            code=code,
            message=message,
            write=write,
            key_path_text=self.address,
            source_line=self.document.get_line(span.line),
        )

    def _find_span(self, mark: FindingMark) -> Span:
        """Return the span of the value. For a text on one line without escapes, it is the content or a part of it."""
        span = self.document.find_value(self.path)
        source_text = self.document.get_source(self.path)
        is_plain = source_text[:1] in {'"', "'"} and source_text[:3] not in {'"""', "'''"}
        if mark == "value" or not is_plain or (source_text[0] == '"' and "\\" in source_text) or len(source_text) < 3:
            return span
        piece = mark if isinstance(mark, TextPiece) else TextPiece(0, len(source_text) - 2)
        start = span.column + 1 + piece.at
        return Span(span.line, start, max(start + 1, min(start + piece.length, span.end_column - 1)))


def _format_key(name: str) -> str:
    return name if _BARE.fullmatch(name) else f'"{name}"'
