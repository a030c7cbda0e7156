"""Descriptions as text: the clauses at the left, their file positions at the right."""

from __future__ import annotations

from agent.config.describe.description_clause import DescriptionClause, format_location
from agent.config.describe.descriptions import Description
from agent.core.language.safe_text import count_columns, escape

_WIDTH = 119  # columns before the file positions, without a width
_LEAST = 50  # minimum columns of the clauses, before file positions
_INDENT = "  "


def render_description(description: Description, width: int | None = None) -> list[str]:
    """Return the lines of a description. Without a width, each clause is one line."""
    location_width = max((count_columns(_format_location(clause)) for clause in description.clauses), default=0)
    room = _WIDTH - 1 if width is None else max(_LEAST, width - location_width - 2)
    lines = fold_text(escape(description.title), _INDENT * 2, width or 0) if width else [escape(description.title)]
    for clause in description.clauses:
        lines += _layout_clause(clause, room, is_folded=width is not None)
    return lines


def _layout_clause(clause: DescriptionClause, room: int, *, is_folded: bool) -> list[str]:
    indent = _INDENT * (clause.level + 1)
    text = escape(f"{clause.text}{f'  {clause.note}' if clause.note else ''}")
    first_line, *other_lines = fold_text(indent + text, indent + _INDENT * 2, room) if is_folded else [indent + text]
    location = _format_location(clause)
    if location:
        first_line = f"{first_line}{' ' * max(1, room + 1 - count_columns(first_line))}{location}"
    return [first_line.rstrip(), *other_lines]


def fold_text(text: str, indent: str, width: int) -> list[str]:
    """Return the text in lines of at most `width` columns. Longer words stay whole."""
    lines: list[str] = []
    words = text.lstrip(" ")
    line = text[: len(text) - len(words)]
    for word in words.split(" "):
        if line.strip() and count_columns(line) + 1 + count_columns(word) > width:
            lines.append(line)
            line = indent
        line += word if not line.strip() else f" {word}"
    return [*lines, line]


def _format_location(clause: DescriptionClause) -> str:
    return escape(format_location(clause.spot)) if clause.spot else ""
