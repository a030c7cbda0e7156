"""What comes out of an import: entries of our language as text, each with what changed on the way."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from agent.core.language.safe_text import escape
from agent.core.struct import MutableStruct, field

TomlValue: TypeAlias = "str | int | bool | Sequence[TomlValue] | Mapping[str, TomlValue]"

_WIDTH = 118
_BARE_KEY_CHARACTERS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-")


class ImportedEntry(MutableStruct):
    """One of their resources, as one or several `[[resource]]`.

    label, line: how it is called in their file, and where it stands there.
    tables: our entries, in order; none if it could not be taken over.
    changes: what is different from now on. checks: what a person has to look at.
    """

    label: str
    line: int
    tables: list[dict[str, TomlValue]] = field(default_factory=list)
    changes: list[str] = field(default_factory=list)
    checks: list[str] = field(default_factory=list)

    def format_toml(self) -> str:
        """The entries, under comments that say where they come from and what changed."""
        lines = [f"# {escape(self.label)}, line {self.line}"]
        lines += [f"#   {escape(change)}" for change in dict.fromkeys(self.changes)]
        lines += [f"#   CHECK {escape(check)}" for check in dict.fromkeys(self.checks)]
        if not self.tables:
            lines.append("#   not taken over")
        for table in self.tables:
            lines += ["[[resource]]", *_format_lines(table, "resource")]
        return "\n".join(lines)


def _format_lines(table: Mapping[str, TomlValue], address: str) -> list[str]:
    """A table's keys; tables in it that are too long for one line stand below it under their own headers."""
    width = max(len(_format_key(key)) for key in table)
    lines: list[str] = []
    section_lines: list[str] = []
    for key, value in table.items():
        line = f"{_format_key(key):{width}} = {_format_value(value)}"
        if len(line) > _WIDTH and isinstance(value, Mapping):
            inner = f"{address}.{_format_key(key)}"
            inner_lines = _format_lines(value, inner)
            section_lines += inner_lines if inner_lines[0].startswith("[") else [f"[{inner}]", *inner_lines]
        else:
            lines.append(line)
    return [*lines, *section_lines]


def _format_key(key: str) -> str:
    """A key; one with dots in it is a way through tables."""
    return key if all(part and set(part) <= _BARE_KEY_CHARACTERS for part in key.split(".")) else _format_text(key)


def _format_text(text: str) -> str:
    """A TOML string; JSON's escapes are TOML's, but for the one character that only TOML wants escaped."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _format_value(value: TomlValue) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case str():
            return _format_text(value)
        case Mapping():
            inner_text = ", ".join(f"{_format_key(key)} = {_format_value(item)}" for key, item in value.items())
            return f"{{ {inner_text} }}" if inner_text else "{}"
    return f"[{', '.join(_format_value(item) for item in value)}]"
