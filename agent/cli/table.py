"""Tables: columns of text under their titles, made to fit the width there is. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from agent.cli.terminal import Terminal, cut, pad
from agent.core.language.safe_text import count_columns
from agent.core.struct import Struct

GAP = "  "


class Column(Struct):
    """A title and how the column gives way.

    narrowest: it may be cut down to so many columns; 0 for one that is never cut.
    leaves: of those that do not fit, the highest leaves first; 0 for one that never does.
    """

    title: str
    right: bool = False
    min_width: int = 0
    drop_order: int = 0


class Row(Struct):
    """The cells of one line, printable, one for each column; and how they are meant: bold, dim, red, yellow."""

    cells: tuple[str, ...]
    style: str = ""


def render(titles: Sequence[Column], rows: Sequence[Row], terminal: Terminal) -> list[str]:
    """The table's lines, its titles first. What must be pasted is never cut, even if the line grows too long."""
    texts = _build_cells(titles, rows, terminal)
    widths, kept = _measure_columns(titles, texts, terminal)
    end = terminal.make_displayable("…")
    styles = ["bold", *(row.style for row in rows)]
    return [
        terminal.style(_format_line(titles, cells, widths, kept, end), style)
        for cells, style in zip(texts, styles, strict=True)
    ]


def list_hidden_titles(titles: Sequence[Column], rows: Sequence[Row], terminal: Terminal) -> tuple[str, ...]:
    """The titles of the columns for which there is no room."""
    _, kept = _measure_columns(titles, _build_cells(titles, rows, terminal), terminal)
    return tuple(column.title for index, column in enumerate(titles) if index not in kept)


def _build_cells(titles: Sequence[Column], rows: Sequence[Row], terminal: Terminal) -> list[tuple[str, ...]]:
    texts = [tuple(column.title for column in titles), *(row.cells for row in rows)]
    return [tuple(terminal.make_displayable(cell) for cell in cells) for cells in texts]


def _measure_columns(
    titles: Sequence[Column], texts: Sequence[tuple[str, ...]], terminal: Terminal
) -> tuple[list[int], list[int]]:
    """How wide each column is, and which of them stay."""
    widths = [max(count_columns(cells[index]) for cells in texts) for index in range(len(titles))]
    if terminal.width is None:
        return widths, list(range(len(titles)))
    return widths, _fit_columns(titles, widths, terminal.width)


def _fit_columns(titles: Sequence[Column], widths: list[int], width: int) -> list[int]:
    """Narrow columns in place; which of them stay."""
    kept = list(range(len(titles)))
    while True:
        over = sum(widths[index] for index in kept) + len(GAP) * (len(kept) - 1) - width
        for index in kept:
            if over > 0 and titles[index].min_width:
                less = min(over, max(0, widths[index] - titles[index].min_width))
                widths[index] -= less
                over -= less
        leaving = max(kept, key=lambda index: titles[index].drop_order)
        if over <= 0 or not titles[leaving].drop_order:
            return kept
        kept.remove(leaving)


def _format_line(
    titles: Sequence[Column], cells: tuple[str, ...], widths: Sequence[int], kept: Sequence[int], end: str
) -> str:
    shown = [pad(cut(cells[index], widths[index], end), widths[index], right=titles[index].right) for index in kept]
    return GAP.join(shown).rstrip()


def format_grid(cells: Sequence[tuple[str, str]], terminal: Terminal, indent: str) -> list[str]:
    """Pairs side by side as far as they fit; one pair a line where there is no width."""
    if not cells:
        return []
    cells = [(terminal.make_displayable(name), terminal.make_displayable(value)) for name, value in cells]
    name = max(count_columns(cell[0]) for cell in cells)
    room = (terminal.width or 0) - len(indent)
    value = min(max(count_columns(cell[1]) for cell in cells), max(10, room // 2 - name - 4))
    across = 1 if terminal.width is None else max(1, (room + 2) // (name + value + 4))
    lines: list[str] = []
    line = ""
    at = 0
    for left, right in cells:
        wide = count_columns(right) > value
        if line and (at >= across or wide):
            lines.append(line)
            line, at = "", 0
        line += pad(f"{pad(left, name)}  {right}", name + value + 4)
        at += across if wide else 1
    return [f"{indent}{each}".rstrip() for each in [*lines, line]]
