"""Tables: columns of text with titles, adapted to the available width. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from agent.cli.terminal import Terminal, cut, pad
from agent.core.language.safe_text import count_columns
from agent.core.struct import Struct

GAP = "  "


class Column(Struct):
    """The title of a column and the rules for a narrow terminal.

    min_width: the column may shrink to this number of columns. 0 means that it never shrinks.
    drop_order: if the table is too wide, the column with the highest number is hidden first. 0 means never.
    """

    title: str
    right: bool = False
    min_width: int = 0
    drop_order: int = 0


class Row(Struct):
    """The printable cells of one line, one for each column, and their style: bold, dim, red or yellow."""

    cells: tuple[str, ...]
    style: str = ""


def render(titles: Sequence[Column], rows: Sequence[Row], terminal: Terminal) -> list[str]:
    """Return the lines of the table. The titles come first.

    Columns that people paste are never cut, even if the line is then too long.
    """
    texts = _build_cells(titles, rows, terminal)
    widths, shown_columns = _measure_columns(titles, texts, terminal)
    end = terminal.make_displayable("…")
    styles = ["bold", *(row.style for row in rows)]
    return [
        terminal.style(_format_line(titles, cells, widths, shown_columns, end), style)
        for cells, style in zip(texts, styles, strict=True)
    ]


def list_hidden_titles(titles: Sequence[Column], rows: Sequence[Row], terminal: Terminal) -> tuple[str, ...]:
    """Return the titles of the columns that do not fit."""
    _, shown_columns = _measure_columns(titles, _build_cells(titles, rows, terminal), terminal)
    return tuple(column.title for index, column in enumerate(titles) if index not in shown_columns)


def _build_cells(titles: Sequence[Column], rows: Sequence[Row], terminal: Terminal) -> list[tuple[str, ...]]:
    texts = [tuple(column.title for column in titles), *(row.cells for row in rows)]
    return [tuple(terminal.make_displayable(cell) for cell in cells) for cells in texts]


def _measure_columns(
    titles: Sequence[Column], texts: Sequence[tuple[str, ...]], terminal: Terminal
) -> tuple[list[int], list[int]]:
    """Return the width of each column and the indexes of the visible columns."""
    widths = [max(count_columns(cells[index]) for cells in texts) for index in range(len(titles))]
    if terminal.width is None:
        return widths, list(range(len(titles)))
    return widths, _fit_columns(titles, widths, terminal.width)


def _fit_columns(titles: Sequence[Column], widths: list[int], width: int) -> list[int]:
    """Reduce the widths in place and return the indexes of the visible columns."""
    shown_columns = list(range(len(titles)))
    while True:
        excess = sum(widths[index] for index in shown_columns) + len(GAP) * (len(shown_columns) - 1) - width
        for index in shown_columns:
            if excess > 0 and titles[index].min_width:
                reduction = min(excess, max(0, widths[index] - titles[index].min_width))
                widths[index] -= reduction
                excess -= reduction
        hidden_column = max(shown_columns, key=lambda index: titles[index].drop_order)
        if excess <= 0 or not titles[hidden_column].drop_order:
            return shown_columns
        shown_columns.remove(hidden_column)


def _format_line(
    titles: Sequence[Column], cells: tuple[str, ...], widths: Sequence[int], shown_columns: Sequence[int], end: str
) -> str:
    texts = [
        pad(cut(cells[index], widths[index], end), widths[index], right=titles[index].right) for index in shown_columns
    ]
    return GAP.join(texts).rstrip()


def format_grid(cells: Sequence[tuple[str, str]], terminal: Terminal, indent: str) -> list[str]:
    """Return pairs in as many columns as fit. Without a width, return one pair for each line."""
    if not cells:
        return []
    cells = [(terminal.make_displayable(name), terminal.make_displayable(value)) for name, value in cells]
    name_width = max(count_columns(cell[0]) for cell in cells)
    available_width = (terminal.width or 0) - len(indent)
    value_width = min(max(count_columns(cell[1]) for cell in cells), max(10, available_width // 2 - name_width - 4))
    column_count = 1 if terminal.width is None else max(1, (available_width + 2) // (name_width + value_width + 4))
    lines: list[str] = []
    line = ""
    column = 0
    for name_text, value_text in cells:
        is_wide = count_columns(value_text) > value_width
        if line and (column >= column_count or is_wide):
            lines.append(line)
            line, column = "", 0
        line += pad(f"{pad(name_text, name_width)}  {value_text}", name_width + value_width + 4)
        column += column_count if is_wide else 1
    return [f"{indent}{text_line}".rstrip() for text_line in [*lines, line]]
