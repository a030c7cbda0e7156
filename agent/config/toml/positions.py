"""Scanner for the positions of every key and value of a TOML text. tomllib gives no positions.

The scanner checks nothing. Its input is a text that tomllib accepts.
The time is linear in the text. Nesting needs fewer stack frames than in tomllib, so no accepted text fails here.
"""

from __future__ import annotations

import re
import tomllib
from typing import TypeAlias

from agent.core.struct import MutableStruct, field

Extent: TypeAlias = tuple[int, int]  # offsets in the text, the end exclusive
_KeySegment: TypeAlias = tuple[str, Extent]  # one segment of a key, with its range

BASIC = r'"(?:[^"\\\n]|\\.)*+"'
LITERAL = r"'[^'\n]*+'"
# The last three quotes end the text. Up to two quotes before them belong to it.
MULTI_BASIC = r'"""(?:[^"\\]|\\.|"(?!""))*+""""{0,2}'
MULTI_LITERAL = r"'''(?:[^']|'(?!''))*+''''{0,2}"
SEGMENT = rf"[A-Za-z0-9_-]++|{BASIC}|{LITERAL}"

_BLANK = re.compile(r"[ \t]*+")
_FILLING = re.compile(r"(?:[ \t\n]|#[^\n]*+)*+")
_SEGMENT = re.compile(SEGMENT)
# A date and a time may have one blank between them. No other unquoted value has a blank.
_SCALAR = re.compile(
    rf"{MULTI_BASIC}|{MULTI_LITERAL}|{BASIC}|{LITERAL}|\d{{4}}-\d\d-\d\d \d\d:[^ \t\n,\]}}#]*+|[^ \t\n,\]}}#]++",
    re.DOTALL,
)


class TomlRange(MutableStruct):
    """The range of one path, and the paths below it. The scan fills it. Later code only reads it.

    `key` is the key as first written, or in its own header. An element of an array has no key.
    A table of an array of tables has the key of its header.
    `value` is the value or the header. For a table that exists only through dotted keys or longer headers, it is the
    first segment with its name.
    """

    key: Extent | None
    value: Extent
    children: dict[str | int, TomlRange] = field(default_factory=dict)


class DuplicateKeyError(ValueError):
    """A second definition of a key or header. No text that tomllib accepts raises this error."""

    def __init__(self, name: str, first_extent: Extent, second_extent: Extent) -> None:
        super().__init__(name)
        self.name = name
        self.first_extent = first_extent
        self.second_extent = second_extent


def scan(text: str) -> TomlRange:
    """Return the root range of a valid text without carriage returns."""
    root = table = TomlRange(None, (0, 0))
    at = _skip_filling(text, 0)
    while at < len(text):
        if text[at] == "[":
            table, at = _scan_header(text, at, root)
        else:
            at = _scan_pair(text, at, table)
        at = _skip_filling(text, at)
    return root


def _scan_header(text: str, start: int, root: TomlRange) -> tuple[TomlRange, int]:
    """Read `[a.b]` or `[[a.b]]`. Return the table that it opens and the offset after it."""
    is_array = text.startswith("[[", start)
    names, at = _scan_key(text, start + 1 + is_array)
    end = at + 1 + is_array
    table = root
    for name, span in names[:-1]:
        table = _get_last_element(_add_child(table, name, span))
    name, span = names[-1]
    existing = table.children.get(name)
    if existing and (0 not in existing.children if is_array else existing.value != existing.key):
        raise DuplicateKeyError(name, existing.key or existing.value, span)
    place = _add_child(table, name, span)
    if not existing or not is_array:
        place.key, place.value = span, (start, end)
    if is_array:
        element = place.children[len(place.children)] = TomlRange(span, (start, end))
        return element, end
    return place, end


def _scan_pair(text: str, at: int, table: TomlRange) -> int:
    """Read `a.b = value` into the table. Return the offset after it."""
    names, at = _scan_key(text, at)
    for name, span in names[:-1]:
        table = _add_child(table, name, span)
        if table.value != table.key:  # dotted keys cannot extend a value or a table with a header
            raise DuplicateKeyError(name, table.key or table.value, span)
    name, span = names[-1]
    if existing := table.children.get(name):
        raise DuplicateKeyError(name, existing.key or existing.value, span)
    return _scan_value(text, _skip_blanks(text, at + 1), _add_child(table, name, span))


def _scan_value(text: str, start: int, place: TomlRange) -> int:
    """Read the value that begins here into its range. Return the offset after it."""
    at = start
    if text[start] == "[":
        at = _skip_filling(text, at + 1)
        while text[at] != "]":
            item = place.children[len(place.children)] = TomlRange(None, (at, at))
            at = _skip_comma(text, _scan_value(text, at, item))
        at += 1
    elif text[start] == "{":
        at = _skip_filling(text, at + 1)
        while text[at] != "}":
            at = _skip_comma(text, _scan_pair(text, at, place))
        at += 1
    elif scalar := _SCALAR.match(text, at):
        at = scalar.end()
    place.value = (start, at)
    return at


def _scan_key(text: str, at: int) -> tuple[list[_KeySegment], int]:
    """Read `a . "b".'c'`. Return its segments and the offset after following blanks."""
    names: list[_KeySegment] = []
    at = _skip_blanks(text, at)
    while segment := _SEGMENT.match(text, at):
        names.append((_parse_segment(segment[0]), segment.span()))
        at = _skip_blanks(text, segment.end())
        if not text.startswith(".", at):
            break
        at = _skip_blanks(text, at + 1)
    return names, at


def _parse_segment(segment: str) -> str:
    """Return the name in a key segment."""
    if segment[0] not in "\"'":
        return segment
    if "\\" not in segment:
        return segment[1:-1]
    name: str = tomllib.loads(f"name = {segment}")["name"]
    return name


def _add_child(table: TomlRange, name: str, span: Extent) -> TomlRange:
    """Return the range of this name below a table. Add the range if it is missing."""
    child = table.children.get(name)
    if child is None:
        child = table.children[name] = TomlRange(span, span)
    return child


def _get_last_element(place: TomlRange) -> TomlRange:
    """Return the last element of an array of tables, which later headers continue. Return any other range itself."""
    return place.children.get(len(place.children) - 1, place)


def _skip_comma(text: str, at: int) -> int:
    at = _skip_filling(text, at)
    return _skip_filling(text, at + 1) if text[at] == "," else at


def _skip_filling(text: str, at: int) -> int:
    """Return the offset after blanks, line ends and comments."""
    match = _FILLING.match(text, at)
    return match.end() if match else at


def _skip_blanks(text: str, at: int) -> int:
    match = _BLANK.match(text, at)
    return match.end() if match else at
