"""A file of another program: YAML or JSON. Each value has its text as written and its line."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import yaml

from agent.core.struct import Struct, field

_TAG = "tag:yaml.org,2002:"
_MAX_VALUES = 100_000  # values of a file. The largest known files have a few thousand


class ForeignFileError(Exception):
    """The file does not belong to the other program. The message names the expected content."""


class ForeignValue(Struct):
    """One value and its line. The first line is 1.

    text: a scalar as written, so that an unquoted `1209` keeps its four digits. It is empty for tables and lists.
    quoted: whether the value is a text in YAML, not a number or a bool.
    """

    line: int
    text: str = ""
    quoted: bool = False
    table: dict[str, ForeignValue] = field(default_factory=dict)
    elements: tuple[ForeignValue, ...] = ()

    def get(self, key: str) -> ForeignValue | None:
        """Return the value of a key in any case, or None. The Go programs that read these files ignore the case."""
        lower = key.lower()
        return next((item for name, item in self.table.items() if name.lower() == lower), None)

    def get_text(self, key: str, default: str = "") -> str:
        """Return the text of the value of a key, or the default."""
        item = self.get(key)
        return item.text if item is not None else default

    def is_true(self, key: str) -> bool:
        """Return whether the value of a key is true."""
        return self.get_text(key).lower() in {"true", "yes", "on", "y"}

    def get_items(self, key: str) -> tuple[ForeignValue, ...]:
        """Return the elements of the list at a key. A single value is a list with one element."""
        item = self.get(key)
        if item is None:
            return ()
        return item.elements or ((item,) if item.text or item.table else ())

    def get_texts(self, key: str) -> list[str]:
        """Return the texts of the list at a key."""
        return [item.text for item in self.get_items(key) if item.text]

    def find_other_keys(self, *keys: str) -> list[str]:
        """Return the keys of the table that are not among `keys`."""
        lower = {name.lower() for name in keys}
        return [name for name in self.table if name.lower() not in lower]

    def walk(self) -> Iterator[ForeignValue]:
        """Yield the value and all values below it."""
        yield self
        for item in (*self.table.values(), *self.elements):
            yield from item.walk()


def parse_documents(text: str, first_line: int = 1) -> list[ForeignValue]:
    """Return the documents of a YAML or JSON text.

    Raises:
            ForeignFileError: the text is neither YAML nor JSON.
    """
    try:
        count = itertools.count(1)
        return [_build_value(node, first_line, (), count) for node in yaml.compose_all(text, Loader=yaml.SafeLoader)]
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        position = f"line {mark.line + first_line}: " if mark else ""
        raise ForeignFileError(f"{position}neither YAML nor JSON: {getattr(error, 'problem', error)}") from None
    except RecursionError:
        raise ForeignFileError("nested too deep to be a configuration") from None


def _build_value(node: yaml.Node, first_line: int, ancestors: tuple[int, ...], count: Iterator[int]) -> ForeignValue:
    if next(count) > _MAX_VALUES:  # nested aliases in a few lines can exceed all memory
        raise ForeignFileError(f"more than {_MAX_VALUES:,} values, with what its aliases repeat")
    if id(node) in ancestors:
        raise ForeignFileError(f"line {node.start_mark.line + first_line}: an alias that contains itself")
    ancestors = (*ancestors, id(node))
    line = node.start_mark.line + first_line
    match node:
        case yaml.MappingNode():
            pairs = [(key.value, _build_value(value, first_line, ancestors, count)) for key, value in node.value]
            return ForeignValue(line, table={str(key): value for key, value in pairs})
        case yaml.SequenceNode():
            return ForeignValue(
                line, elements=tuple(_build_value(value, first_line, ancestors, count) for value in node.value)
            )
    text = "" if node.tag == f"{_TAG}null" else str(node.value)
    return ForeignValue(line, text, quoted=node.tag == f"{_TAG}str")
