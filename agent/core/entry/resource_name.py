"""Names of resources that are written from words of a device."""

from __future__ import annotations

import re

from agent.core.language.template import FactReader, Template
from agent.core.language.value import Absent

NAME_LIMIT = 63  # characters behind the "/"
_NOT_NAME = re.compile(r"[^A-Za-z0-9_.-]")
_ENDS = "-_."


def format_resource_name(text: Template, fact: FactReader) -> str | Absent:
    """The name that a text says of a device: `+` becomes `.`, what else no name can have `-`.

    Absent if a word of it is, or leaves nothing, or if the name is longer than the kubelet takes: it is never cut.
    """
    name = ""
    for piece in text.pieces:
        if isinstance(piece, str):
            name += piece
            continue
        said = Template(text.source, (piece,)).write(fact)
        if isinstance(said, Absent):
            return said
        clean = _NOT_NAME.sub("-", said.replace("+", "."))
        if not clean.strip(_ENDS):
            return Absent(f"{piece.word}: {said[:NAME_LIMIT]!r} says nothing that a name can have")
        name += clean
    vendor, _, rest = name.partition("/")
    rest = rest.strip(_ENDS)
    if len(rest) > NAME_LIMIT:
        return Absent(f"{rest} has {len(rest)} characters, the kubelet takes {NAME_LIMIT}")
    return f"{vendor}/{rest}"
