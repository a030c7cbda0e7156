"""Imported entries as TOML text, with the changes that the import made."""

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
    """One resource of the other program, as one or several `[[resource]]` tables.

    label, line: the name and line of the resource in the other file.
    tables: the entries in order. The list is empty if the import is not possible.
    changes: differences in behaviour after the import.
    checks: points that the administrator must check.
    """

    label: str
    line: int
    tables: list[dict[str, TomlValue]] = field(default_factory=list)
    changes: list[str] = field(default_factory=list)
    checks: list[str] = field(default_factory=list)

    def format_toml(self) -> str:
        """Return the entries, below comments with their origin and the changes."""
        lines = [f"# {escape(self.label)}, line {self.line}"]
        lines += [f"#   {escape(change)}" for change in dict.fromkeys(self.changes)]
        lines += [f"#   CHECK {escape(check)}" for check in dict.fromkeys(self.checks)]
        if not self.tables:
            lines.append("#   not taken over")
        for table in self.tables:
            lines += ["[[resource]]", *_format_lines(table, "resource")]
        return "\n".join(lines)


def _format_lines(table: Mapping[str, TomlValue], address: str) -> list[str]:
    """Return the lines of a table. Inner tables that are too long for a line follow with their own headers."""
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
    """Return a key. The dots in a key separate tables."""
    return key if all(part and set(part) <= _BARE_KEY_CHARACTERS for part in key.split(".")) else _format_text(key)


def _format_text(text: str) -> str:
    """Return a TOML string. The escapes are those of JSON, except U+007F, which only TOML escapes."""
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


# Directories that contain device nodes directly.
DIRECTORY_NAMES = frozenset({"snd", "dri", "input", "infiniband", "vfio", "net"})


def build_directory_entry(
    entry: ImportedEntry, name: str, give: Mapping[str, TomlValue], to: str = ""
) -> dict[str, TomlValue]:
    """Return an entry without name for the nodes in a directory of /dev. The directory is no host device.

    give: other keys of each node.
    to: the directory in the container, if the path differs.
    """
    entry.changes.append(f"all nodes below /dev/{name} at the moment of the grant")
    node: dict[str, TomlValue] = {"path": f"/dev/{name}/{{inside}}"}
    if to:
        node["to"] = f"{to}/{{inside}}"
    return {
        "source": {"fixed": [name]},
        "id": "{name}",
        "let": {"inside": {"names_of": f"/dev/{name}/*"}},
        "give": {"nodes": {"node": {**node, **give, "optional": True}}},
    }
