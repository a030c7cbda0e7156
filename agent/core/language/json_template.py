"""JSON tables with templates as values. Members whose words have no value are left out."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TypeAlias

from agent.core.language.template import FactReader, Template
from agent.core.language.value import Absent
from agent.core.struct import Struct


class JsonLiteral(Struct):
    """A number or a Boolean, as JSON text. The text keeps `1` and `true` different."""

    json: str


class JsonArray(Struct):
    """A list. Each element of a list word becomes one element of the array."""

    items: tuple[JsonPart, ...]


class JsonTable(Struct):
    """A table, with its members in the order of the file."""

    members: tuple[tuple[str, JsonPart], ...]

    def find_templates(self) -> Iterator[Template]:
        """Yield all templates in the table."""
        for _, part in self.members:
            yield from _find_templates(part)

    def write(self, fact: FactReader) -> str:
        """Return the JSON object, or an empty string if it has no member."""
        return _format_part(self, fact)


JsonPart: TypeAlias = Template | JsonLiteral | JsonArray | JsonTable


def build_json_object(members: dict[str, str]) -> str:
    """Return the JSON object of members whose values are JSON text already."""
    return "{" + ",".join(f"{_quote(name)}:{value}" for name, value in members.items()) + "}"


def _find_templates(part: JsonPart) -> Iterator[Template]:
    match part:
        case Template():
            yield part
        case JsonTable():
            yield from part.find_templates()
        case JsonArray(items):
            for item in items:
                yield from _find_templates(item)


def _format_part(part: JsonPart, fact: FactReader) -> str:
    """Return a part as JSON text, or an empty string.

    The string is empty if a word is absent, or if a text, an array or an object is empty.
    """
    match part:
        case JsonLiteral(text):
            return text
        case Template():
            values = _format_values(part, fact)
            return _format_array(values) if _is_list(part, fact) else "".join(values)
        case JsonArray(items):
            return _format_array([text for item in items for text in _format_elements(item, fact)])
        case JsonTable(members):
            members_json = {name: text for name, member in members if (text := _format_part(member, fact))}
            return build_json_object(members_json) if members_json else ""


def _format_elements(part: JsonPart, fact: FactReader) -> list[str]:
    """Return the array elements of a part. A list word gives several elements, not a nested array."""
    return _format_values(part, fact) if isinstance(part, Template) else list(filter(None, (_format_part(part, fact),)))


def _format_values(text: Template, fact: FactReader) -> list[str]:
    texts = text.write_all(fact)
    return [] if isinstance(texts, Absent) else [_quote(item) for item in texts if item]


def _is_list(text: Template, fact: FactReader) -> bool:
    return any(isinstance(fact(slot.word), tuple) for slot in text.slots)


def _format_array(items: list[str]) -> str:
    return f"[{','.join(items)}]" if items else ""


def _quote(text: str) -> str:
    """Return a JSON string of printable ASCII characters, whatever the hardware reports."""
    return json.dumps(text).replace("\x7f", "\\u007f")
