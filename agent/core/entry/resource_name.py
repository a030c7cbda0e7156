"""Names of resources that contain words of a device."""

from __future__ import annotations

import re

from agent.core.language.template import FactReader, Template
from agent.core.language.value import Absent

NAME_LIMIT = 63  # characters after the "/"
_NOT_NAME = re.compile(r"[^A-Za-z0-9_.-]")
_ENDS = "-_."


def format_resource_name(text: Template, fact: FactReader) -> str | Absent:
    """Return the resource name of a device. In values, `+` becomes `.`, and other invalid characters become `-`.

    The name is absent if a word is absent or has no valid character, or if the name is too long for the kubelet. A
    name is never cut.
    """
    name = ""
    for piece in text.pieces:
        if isinstance(piece, str):
            name += piece
            continue
        value = Template(text.source, (piece,)).write(fact)
        if isinstance(value, Absent):
            return value
        clean_value = _NOT_NAME.sub("-", value.replace("+", "."))
        if not clean_value.strip(_ENDS):
            return Absent(f"{piece.word}: {value[:NAME_LIMIT]!r} says nothing that a name can have")
        name += clean_value
    vendor, _, name_part = name.partition("/")
    name_part = name_part.strip(_ENDS)
    if len(name_part) > NAME_LIMIT:
        return Absent(f"{name_part} has {len(name_part)} characters, the kubelet takes {NAME_LIMIT}")
    return f"{vendor}/{name_part}"
