"""Where every key and value of a TOML text stands: a scanner beside tomllib, which gives no places.

It judges nothing: its text is one that tomllib accepts, and it takes everything else about it for granted.
The work is linear in the text, and nesting costs fewer frames than it costs tomllib, so that what passes
there passes here.
"""

from __future__ import annotations

import re
import tomllib
from typing import TypeAlias

from agent.core.struct import MutableStruct, field

Extent: TypeAlias = tuple[int, int]  # offsets in the text, the end exclusive
_KeySegment: TypeAlias = tuple[str, Extent]  # one segment of a key, and where it stands

BASIC = r'"(?:[^"\\\n]|\\.)*+"'
LITERAL = r"'[^'\n]*+'"
# The first three quotes end the text; up to two more before them belong to it.
MULTI_BASIC = r'"""(?:[^"\\]|\\.|"(?!""))*+""""{0,2}'
MULTI_LITERAL = r"'''(?:[^']|'(?!''))*+''''{0,2}"
SEGMENT = rf"[A-Za-z0-9_-]++|{BASIC}|{LITERAL}"

_BLANK = re.compile(r"[ \t]*+")
_FILLING = re.compile(r"(?:[ \t\n]|#[^\n]*+)*+")
_SEGMENT = re.compile(SEGMENT)
# A date and a time may have one blank between them; nothing else unquoted has any.
_SCALAR = re.compile(
    rf"{MULTI_BASIC}|{MULTI_LITERAL}|{BASIC}|{LITERAL}|\d{{4}}-\d\d-\d\d \d\d:[^ \t\n,\]}}#]*+|[^ \t\n,\]}}#]++",
    re.DOTALL,
)


class TomlRange(MutableStruct):
    """Where one path stands, and the paths below it. Filled while scanning, only read afterwards.

    `key` is the key as first written, or as its own header writes it; an array's element has none, a table
    of an array of tables has its header's. `value` is the value, or the header, or the first segment that
    names the table, for one that only dotted keys and longer headers make.
    """

    key: Extent | None
    value: Extent
    children: dict[str | int, TomlRange] = field(default_factory=dict)


class DuplicateKeyError(ValueError):
    """A key or header that is there already. Raised on no text that tomllib accepts."""

    def __init__(self, name: str, first_extent: Extent, second_extent: Extent) -> None:
        super().__init__(name)
        self.name = name
        self.first_extent = first_extent
        self.second_extent = second_extent


def scan(text: str) -> TomlRange:
    """The root of all places in a valid text without carriage returns."""
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
    """Reads `[a.b]` or `[[a.b]]`; the table it opens, and the offset behind it."""
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
    """Reads `a.b = value` into the table; the offset behind it."""
    names, at = _scan_key(text, at)
    for name, span in names[:-1]:
        table = _add_child(table, name, span)
        if table.value != table.key:  # it has a value or a header, and dotted keys add to neither
            raise DuplicateKeyError(name, table.key or table.value, span)
    name, span = names[-1]
    if existing := table.children.get(name):
        raise DuplicateKeyError(name, existing.key or existing.value, span)
    return _scan_value(text, _skip_blanks(text, at + 1), _add_child(table, name, span))


def _scan_value(text: str, start: int, place: TomlRange) -> int:
    """Reads the value that begins here into its place; the offset behind it."""
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
    """Reads `a . "b".'c'`; its segments, and the offset of what follows them and the blanks."""
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
    """What a segment of a key says."""
    if segment[0] not in "\"'":
        return segment
    if "\\" not in segment:
        return segment[1:-1]
    name: str = tomllib.loads(f"name = {segment}")["name"]
    return name


def _add_child(table: TomlRange, name: str, span: Extent) -> TomlRange:
    """The place of this name below a table, made if it is not there."""
    child = table.children.get(name)
    if child is None:
        child = table.children[name] = TomlRange(span, span)
    return child


def _get_last_element(place: TomlRange) -> TomlRange:
    """Of an array of tables the last one, which headers go on from; any other place itself."""
    return place.children.get(len(place.children) - 1, place)


def _skip_comma(text: str, at: int) -> int:
    at = _skip_filling(text, at)
    return _skip_filling(text, at + 1) if text[at] == "," else at


def _skip_filling(text: str, at: int) -> int:
    """The offset behind blanks, line ends and comments."""
    match = _FILLING.match(text, at)
    return match.end() if match else at


def _skip_blanks(text: str, at: int) -> int:
    match = _BLANK.match(text, at)
    return match.end() if match else at
