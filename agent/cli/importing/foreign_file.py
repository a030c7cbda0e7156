"""A file of another program: YAML or JSON, every value as it is written and with its line."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import yaml

from agent.core.struct import Struct, field

_TAG = "tag:yaml.org,2002:"
_MAX_VALUES = 100_000  # values of a file; the largest there are have some thousand


class ForeignFileError(Exception):
    """The file is none of that program's; the message says what was looked for."""


class ForeignValue(Struct):
    """One value and its line, from 1.

    text: a scalar as it is written, so that an unquoted `1209` is still four digits; empty for tables and lists.
    quoted: it is text for YAML too, not a number or a bool.
    """

    line: int
    text: str = ""
    quoted: bool = False
    table: dict[str, ForeignValue] = field(default_factory=dict)
    elements: tuple[ForeignValue, ...] = ()

    def get(self, key: str) -> ForeignValue | None:
        """The value of a key, whatever its case: the Go programs that read these files do not mind it."""
        lower = key.lower()
        return next((item for name, item in self.table.items() if name.lower() == lower), None)

    def get_text(self, key: str, default: str = "") -> str:
        """The text of a key's value, or the default."""
        item = self.get(key)
        return item.text if item is not None else default

    def is_true(self, key: str) -> bool:
        """Whether a key's value is true."""
        return self.get_text(key).lower() in {"true", "yes", "on", "y"}

    def get_items(self, key: str) -> tuple[ForeignValue, ...]:
        """The elements of a key's list; of one value, that."""
        item = self.get(key)
        if item is None:
            return ()
        return item.elements or ((item,) if item.text or item.table else ())

    def get_texts(self, key: str) -> list[str]:
        """The texts of a key's list."""
        return [item.text for item in self.get_items(key) if item.text]

    def find_other_keys(self, *keys: str) -> list[str]:
        """The keys beside those."""
        lower = {name.lower() for name in keys}
        return [name for name in self.table if name.lower() not in lower]

    def walk(self) -> Iterator[ForeignValue]:
        """The item and all below it."""
        yield self
        for item in (*self.table.values(), *self.elements):
            yield from item.walk()


def parse_documents(text: str, first_line: int = 1) -> list[ForeignValue]:
    """The documents of a YAML or JSON text.

    Raises:
        NotTheirs: it is neither.
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
    if next(count) > _MAX_VALUES:  # a few lines of aliases of aliases can say more than any memory has room for
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
