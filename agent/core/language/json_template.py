"""Tables that become JSON: texts with words at their ends. What a device has nothing for is left out of its own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TypeAlias

from agent.core.language.template import FactReader, Template
from agent.core.language.value import Absent
from agent.core.struct import Struct


class JsonLiteral(Struct):
    """A number or a truth value, as JSON has it: of equal texts, `1` is not `true`."""

    json: str


class JsonArray(Struct):
    """A list. The elements of a list word in it are elements of it."""

    items: tuple[JsonPart, ...]


class JsonTable(Struct):
    """A table, its members in the order they were written in."""

    members: tuple[tuple[str, JsonPart], ...]

    def find_templates(self) -> Iterator[Template]:
        """All texts in it."""
        for _, part in self.members:
            yield from _find_templates(part)

    def write(self, fact: FactReader) -> str:
        """The JSON object; empty if nothing is in it."""
        return _format_part(self, fact)


JsonPart: TypeAlias = Template | JsonLiteral | JsonArray | JsonTable


def build_json_object(members: dict[str, str]) -> str:
    """The JSON object of members that are JSON already."""
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
    """As JSON; empty if there is nothing: a word is absent, a text, an array or an object is empty."""
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
    """What it is in an array: an array of a list word is no array in it."""
    return _format_values(part, fact) if isinstance(part, Template) else list(filter(None, (_format_part(part, fact),)))


def _format_values(text: Template, fact: FactReader) -> list[str]:
    texts = text.write_all(fact)
    return [] if isinstance(texts, Absent) else [_quote(item) for item in texts if item]


def _is_list(text: Template, fact: FactReader) -> bool:
    return any(isinstance(fact(slot.word), tuple) for slot in text.slots)


def _format_array(items: list[str]) -> str:
    return f"[{','.join(items)}]" if items else ""


def _quote(text: str) -> str:
    """A JSON string of printable ASCII, whatever a device says of itself."""
    return json.dumps(text).replace("\x7f", "\\u007f")
