"""A TOML file as a value that knows where everything in it stands."""

from __future__ import annotations

import tomllib
from bisect import bisect_right
from collections.abc import Sequence
from typing import Any, TypeAlias

from agent.config.toml.finding import Finding, Severity
from agent.config.toml.positions import Extent, TomlRange, scan
from agent.core.struct import Struct, not_compared

KeyPath: TypeAlias = Sequence[str | int]  # ("resource", 0, "give", "nodes", "tty", "path"); numbers count from 0

_BOM = "\ufeff"


class DocumentError(Exception):
    """A file that is no TOML at all. TOML is read to its first mistake, so there is one finding, no more."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(f"{finding.file}:{finding.line}:{finding.column}: {finding.message}")
        self.finding = finding


class Span(Struct):
    """A piece of one line: numbers count from 1, columns are characters, the end is exclusive.

    What goes over several lines ends here with its first line.
    """

    line: int
    column: int
    end_column: int


@not_compared("_root", "_line_starts")
class Document(Struct):
    r"""A valid TOML file. `name` is the path people know; `text` has no byte order mark and `\n` line ends.

    Every path of `data` has a place. One that is not in `data` has that of the nearest path around it, the
    whole document's being its first character: so what is missing is reported where it should be.
    """

    name: str
    text: str
    data: dict[str, Any]
    _root: TomlRange
    _line_starts: tuple[int, ...]

    def find_key(self, path: KeyPath) -> Span:
        """Where the key is written: of a dotted key or header the one segment. An element has its array's."""
        extent: Extent = (0, 0)
        for place in self._find_ranges(path):
            extent = place.key or extent
        return _make_span(self.text, self._line_starts, extent)

    def find_value(self, path: KeyPath) -> Span:
        """Where the value is written: of a table its header or inline table.

        A table that only dotted keys or longer headers make has the first segment that names it.
        """
        return _make_span(self.text, self._line_starts, self._find_ranges(path)[-1].value)

    def get_source(self, path: KeyPath) -> str:
        """The value as written, whole, over all its lines."""
        start, end = self._find_ranges(path)[-1].value
        return self.text[start:end]

    def get_line(self, number: int) -> str:
        """The text of a line, without its end; empty for one that is not there."""
        return _get_line(self.text, self._line_starts, number)

    def _find_ranges(self, path: KeyPath) -> list[TomlRange]:
        """The places from the root to the path, or as far as it goes."""
        places = [self._root]
        for step in path:
            below = places[-1].children.get(step)
            if below is None:
                break
            places.append(below)
        return places


def decode(name: str, content: bytes) -> str:
    """The text of a file; DocumentError, with the place, if it is not UTF-8."""
    try:
        return content.decode().removeprefix(_BOM)
    except UnicodeDecodeError as error:
        if content.startswith((b"\xff\xfe", b"\xfe\xff")):
            message = "the file is UTF-16, and TOML is UTF-8"
        else:
            message = f"the byte 0x{content[error.start]:02x} is not UTF-8, and TOML is"
        # Each byte that is no UTF-8 becomes one character, so that the columns are those of the line as shown.
        text = content.decode(errors="surrogateescape").removeprefix(_BOM)
        start = len(content[: error.start].decode().removeprefix(_BOM))
        raise DocumentError(_make_finding(name, text, (start, start + 1), message, "save the file as UTF-8")) from None


def parse(name: str, text: str) -> Document:
    """The document that a text is; DocumentError, with the place and what to write, if it is no TOML."""
    text = text.removeprefix(_BOM)
    unix_text = text.replace("\r\n", "\n")  # as tomllib does: its line and column count there, and so do ours
    try:
        data = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # ValueError: a number with too many digits has no other
        from agent.config.toml.toml_errors import explain  # seldom wanted

        mistake = explain(unix_text, error)
        message = f"{mistake.message}; nothing else in this file could be read"
        raise DocumentError(
            _make_finding(name, unix_text, (mistake.start, mistake.end), message, mistake.write)
        ) from None
    return Document(name, unix_text, data, scan(unix_text), _find_line_starts(unix_text))


def _make_finding(name: str, text: str, extent: Extent, message: str, write: str) -> Finding:
    starts = _find_line_starts(text)
    # An end of file is shown at the end of the last line that says something.
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
