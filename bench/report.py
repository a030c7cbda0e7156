"""The table of the results: for a terminal, for programs, for docs/performance.md."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict

from bench.result import Line, Result
from bench.subjects import TOP

DOCUMENT = TOP / "docs" / "performance.md"
BEGIN, END = "<!-- bench: begin -->", "<!-- bench: end -->"
COLUMNS = ("agent", "bare Python", "bare Go")
HEAD = ("what", "budget", *COLUMNS, "× Python", "× Go")


def document(machine: Mapping[str, str], results: Sequence[Result]) -> dict[str, object]:
    """Everything, for json."""
    return {
        "machine": dict(machine),
        "lines": [{**asdict(line), "met": line.met} for result in results for line in result.lines],
        "measuring": {
            result.lines[0].name: {"seconds": round(result.seconds, 2), "cpu": round(result.own_cpu, 2)}
            for result in results
            if result.lines
        },
        "notes": [note for result in results for note in result.notes],
    }


def text(machine: Mapping[str, str], results: Sequence[Result]) -> str:
    """For people at a terminal."""
    table = [HEAD, *_cells(results)]
    widths = [max(len(row[column]) for row in table) for column in range(len(HEAD))]
    lines = ["  ".join(map(_pad_cell, row, widths, range(len(row)))) for row in table]
    return "\n".join([*lines, "", *_around(machine, results)])


def _pad_cell(cell: str, width: int, column: int) -> str:
    return cell.rjust(width) if column else cell.ljust(width)


def write(machine: Mapping[str, str], results: Sequence[Result]) -> None:
    """Between the markers of the document."""
    rows = [HEAD, ("---", *["--:"] * (len(HEAD) - 1)), *_cells(results)]
    table = [f"| {' | '.join(row)} |" for row in rows]
    facts = [f"- {line}" for line in _around(machine, results)]
    before, _, rest = DOCUMENT.read_text("utf-8").partition(BEGIN)
    after = rest.partition(END)[2]
    DOCUMENT.write_text("\n".join([before + BEGIN, "", *table, "", *facts, "", END + after]), "utf-8")


def _cells(results: Sequence[Result]) -> list[tuple[str, ...]]:
    return [_row(line) for result in results for line in result.lines]


def _row(line: Line) -> tuple[str, ...]:
    unit = f" {line.unit}" if line.unit else ""
    values = [f"{line.values[name]:.{line.digits}f}{unit}" if name in line.values else "" for name in COLUMNS]
    ratios = ["" if (times := line.times(name)) is None else f"{times:.1f}" for name in COLUMNS[1:]]
    return (line.what, _budget(line, unit), *values, *ratios)


def _budget(line: Line, unit: str) -> str:
    if line.budget is None:
        return ""
    said = f"{line.budget:g} × Go" if line.ratio else f"{line.budget:g}{unit}"
    verdict = {True: "✓", False: "✗", None: ""}[line.met]
    return f"{said} {verdict}".strip()


def _around(machine: Mapping[str, str], results: Sequence[Result]) -> list[str]:
    seconds = sum(result.seconds for result in results)
    own = sum(result.own_cpu for result in results)
    shares = ", ".join(
        f"{result.lines[0].name} {100 * result.own_cpu / result.seconds:.0f} %" for result in results if result.lines
    )
    return [
        *(f"{name}: {fact}" for name, fact in machine.items()),
        f"measured in {seconds:.0f} s; the measuring side's own CPU {own:.0f} s; of each measurement's time: {shares}",
        *(note for result in results for note in result.notes),
    ]
