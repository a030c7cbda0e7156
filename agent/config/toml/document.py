"""A TOML file as a value, with the position of each key and value."""

from __future__ import annotations

import tomllib
from bisect import bisect_right
from collections.abc import Sequence
from typing import Any, TypeAlias

from agent.config.toml.finding import Finding, Severity
from agent.config.toml.positions import Extent, TomlRange, scan
from agent.core.struct import Struct, ignore_in_comparison

KeyPath: TypeAlias = Sequence[str | int]  # ("resource", 0, "give", "nodes", "tty", "path"); numbers count from 0

_BOM = "\ufeff"


class DocumentError(Exception):
    """A file that is not TOML. The parser stops at the first mistake, so there is exactly one finding."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(f"{finding.file}:{finding.line}:{finding.column}: {finding.message}")
        self.finding = finding


class Span(Struct):
    """A part of one line. Numbers count from 1, columns are characters, and the end is exclusive.

    A value over several lines ends here with its first line.
    """

    line: int
    column: int
    end_column: int


@ignore_in_comparison("_root", "_line_starts")
class Document(Struct):
    r"""A valid TOML file.

    `name` is the display path. `text` has no byte order mark, and its line ends are `\n`.
    Every path of `data` has a position. A path that is not in `data` has the position of the nearest path around it.
    So a finding about a missing key points to its table. The position of the document is its first character.
    """

    name: str
    text: str
    data: dict[str, Any]
    _root: TomlRange
    _line_starts: tuple[int, ...]

    def find_key(self, path: KeyPath) -> Span:
        """Return the span of a key. In a dotted key or a header this is one segment.

        An element of an array has the span of its array.
        """
        extent: Extent = (0, 0)
        for place in self._find_ranges(path):
            extent = place.key or extent
        return _make_span(self.text, self._line_starts, extent)

    def find_value(self, path: KeyPath) -> Span:
        """Return the span of a value. For a table, this is its header or inline table.

        A table that exists only through dotted keys or longer headers has the first segment with its name.
        """
        return _make_span(self.text, self._line_starts, self._find_ranges(path)[-1].value)

    def get_source(self, path: KeyPath) -> str:
        """Return the complete source text of a value, over all its lines."""
        start, end = self._find_ranges(path)[-1].value
        return self.text[start:end]

    def get_line(self, number: int) -> str:
        """Return the text of a line without its end, or an empty string if there is no such line."""
        return _get_line(self.text, self._line_starts, number)

    def _find_ranges(self, path: KeyPath) -> list[TomlRange]:
        """Return the ranges from the root to the path, or to its last known step."""
        places = [self._root]
        for step in path:
            below = places[-1].children.get(step)
            if below is None:
                break
            places.append(below)
        return places


def decode(name: str, content: bytes) -> str:
    """Return the text of a file.

    Raises:
        DocumentError: the text is not UTF-8. The finding has the position.
    """
    try:
        return content.decode().removeprefix(_BOM)
    except UnicodeDecodeError as error:
        if content.startswith((b"\xff\xfe", b"\xfe\xff")):
            message = "the file is UTF-16, and TOML is UTF-8"
        else:
            message = f"the byte 0x{content[error.start]:02x} is not UTF-8, and TOML is"
        # Each byte that is not UTF-8 becomes one character, so columns agree with the displayed line.
        text = content.decode(errors="surrogateescape").removeprefix(_BOM)
        start = len(content[: error.start].decode().removeprefix(_BOM))
        raise DocumentError(_make_finding(name, text, (start, start + 1), message, "save the file as UTF-8")) from None


def parse(name: str, text: str) -> Document:
    """Parse a TOML text.

    Raises:
        DocumentError: the text is not TOML. The finding has the position and the correction.
    """
    text = text.removeprefix(_BOM)
    unix_text = text.replace("\r\n", "\n")  # as in tomllib, whose line and column count in this text
    try:
        data = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # ValueError: a number with too many digits
        from agent.config.toml.toml_errors import explain  # rarely needed

        mistake = explain(unix_text, error)
        message = f"{mistake.message}; nothing else in this file could be read"
        raise DocumentError(
            _make_finding(name, unix_text, (mistake.start, mistake.end), message, mistake.write)
        ) from None
    return Document(name, unix_text, data, scan(unix_text), _find_line_starts(unix_text))


def _make_finding(name: str, text: str, extent: Extent, message: str, write: str) -> Finding:
    starts = _find_line_starts(text)
    # A fault at the end of the file points to the end of the last line with text.
    start = min(extent[0], len(text.rstrip()))
    span = _make_span(text, starts, (start, max(extent[1], start + 1)))
    return Finding(
        file=name,
        line=span.line,
        column=span.column,
        end_column=span.end_column,
        severity=Severity.ERROR,
        code="toml",
        message=message,
        write=write,
        source_line=_get_line(text, starts, span.line),
    )


def _find_line_starts(text: str) -> tuple[int, ...]:
    starts = [0]
    while end := text.find("\n", starts[-1]) + 1:
        starts.append(end)
    return tuple(starts)


def _make_span(text: str, starts: Sequence[int], extent: Extent) -> Span:
    start, end = extent
    line = bisect_right(starts, start)
    line_start = starts[line - 1]
    line_end = line_start + len(_get_line(text, starts, line))
    column = start - line_start + 1
    return Span(line, column, max(column, min(end, line_end) - line_start + 1))


def _get_line(text: str, starts: Sequence[int], number: int) -> str:
    if not 1 <= number <= len(starts):
        return ""
    end = starts[number] - 1 if number < len(starts) else len(text)
    return text[starts[number - 1] : end]
