"""Readings as text: the clauses at the left, where each was written at the right."""

from __future__ import annotations

from agent.config.describe.description_clause import DescriptionClause, place
from agent.config.describe.descriptions import Description
from agent.core.language.safe_text import count_columns, escape

_WIDTH = 119  # columns before the places, where there is no width
_LEAST = 50  # columns that the clauses have in any case; places leave before
_INDENT = "  "


def render(reading: Description, width: int | None = None) -> list[str]:
    """The lines of a reading. Within a width clauses are folded; without one each is a line, however long."""
    at = max((count_columns(_place(said)) for said in reading.clauses), default=0)
    room = _WIDTH - 1 if width is None else max(_LEAST, width - at - 2)
    lines = fold(escape(reading.title), _INDENT * 2, width or 0) if width else [escape(reading.title)]
    for said in reading.clauses:
        lines += _clause(said, room, folded=width is not None)
    return lines


def _clause(said: DescriptionClause, room: int, *, folded: bool) -> list[str]:
    indent = _INDENT * (said.level + 1)
    text = escape(f"{said.text}{f'  {said.note}' if said.note else ''}")
    first, *others = fold(indent + text, indent + _INDENT * 2, room) if folded else [indent + text]
    where = _place(said)
    if where:
        first = f"{first}{' ' * max(1, room + 1 - count_columns(first))}{where}"
    return [first.rstrip(), *others]


def fold(text: str, indent: str, width: int) -> list[str]:
    """The text in lines of at most that width, but for words that are longer."""
    lines: list[str] = []
    words = text.lstrip(" ")
    line = text[: len(text) - len(words)]
    for word in words.split(" "):
        if line.strip() and count_columns(line) + 1 + count_columns(word) > width:
            lines.append(line)
            line = indent
        line += word if not line.strip() else f" {word}"
    return [*lines, line]


def _place(said: DescriptionClause) -> str:
    return escape(place(said.spot)) if said.spot else ""
