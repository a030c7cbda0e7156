"""Overview: one line for each relevant host device. On a screen, equal devices share a line."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from agent.cli.host_report.device_summary import PciNames, format_value, summarize_device
from agent.cli.host_report.host_report import HostReport, HostReportItem
from agent.cli.table import Column, Row, list_hidden_titles, render
from agent.cli.terminal import Terminal
from agent.core.language.safe_text import format_count, make_printable
from agent.core.language.value import Absent, format_scalar
from agent.core.struct import MutableStruct, field

COLUMNS = (
    Column("HOST DEVICE"),
    Column("WHAT", min_width=12, drop_order=1),
    Column("NUMA", right=True, drop_order=2),
    Column("DRIVER", drop_order=3),
    Column("TAKEN BY"),
)
_WIDE = (
    Column("HANGS ON", drop_order=5),
    Column("IOMMU", right=True, drop_order=6),
    Column("NODES", drop_order=7),
    Column("SERIAL", drop_order=8),
    Column("ID", drop_order=4),
)
_BRIDGE = "06"  # base class of bridges, which no pod can use


class _Line(MutableStruct):
    """One row of the table: the first of several equal devices, and their count."""

    name: str
    text: str
    group_text: str
    driver: str
    taker: str
    style: str
    numa: list[str] = field(default_factory=list)
    count: int = 0
    wide_cells: tuple[str, ...] = ()


def format_overview(report: HostReport, terminal: Terminal, *, everything: bool, wide: bool = False) -> list[str]:
    """Return the lines of the table.

    everything: show all devices. Otherwise show devices with an entry, with one mismatch or a matching class, and PCI
            functions.
    wide: show more columns, one row for each device, and the names of columns that do not fit.
    """
    items = select_items(report, everything=everything)
    lines = _build_lines(report, items)
    if wide:
        for line, item in zip(lines, items, strict=True):
            line.wide_cells = _build_wide_cells(report, item, all_nodes=terminal.width is None)
    elif terminal.width is not None:
        lines = _fold_lines(lines)
    columns = (*COLUMNS[:-1], *(_WIDE if wide else ()), COLUMNS[-1])
    rows = [
        Row(
            (
                f"{line.name} +{line.count - 1}" if line.count > 1 else line.name,
                line.group_text if line.count > 1 else line.text,
                " ".join(sorted({numa for numa in line.numa if numa})) or "–",
                line.driver or "–",
                *(cell or "–" for cell in line.wide_cells),
                line.taker,
            ),
            line.style,
        )
        for line in lines
    ]
    table = render(columns, rows, terminal)
    omitted_columns = list_hidden_titles(columns, rows, terminal) if wide else ()
    return (
        [*table, f"Hidden columns: {', '.join(omitted_columns)}. Output to a pipe has all columns."]
        if omitted_columns
        else table
    )


def _build_wide_cells(report: HostReport, item: HostReportItem, *, all_nodes: bool) -> tuple[str, ...]:
    """Return the cells of the columns in `_WIDE`. all_nodes: show all device nodes, not only the first."""

    def format_word(word: str) -> str:
        return format_value(report.read_fact(item, word))

    usb, pci = format_word("usb.port"), format_word("pci.address")
    if item.label == "pci":
        parent = format_word("pf.address") or format_word("parent.name")
    elif item.label == "usb":
        parent = format_word("usb.hub") or pci
    else:
        parent = usb or pci
    value = report.read_fact(item, "nodes")
    nodes = value if isinstance(value, tuple) else () if isinstance(value, Absent) else (value,)
    names = [make_printable(format_scalar(node), None) for node in nodes if node != item.host.name]
    if not all_nodes and len(names) > 1:
        names = [f"{names[0]} +{len(names) - 1}"]
    id_ = make_printable(item.device.id, None) if item.device else ""
    return parent, format_word("pci.iommu.group"), ", ".join(names), format_word("usb.serial"), id_


def select_items(report: HostReport, *, everything: bool) -> list[HostReportItem]:
    """Return the devices that the table shows."""
    return [item for item in report.items if everything or _is_relevant(report, item)]


def format_summary(report: HostReport, milliseconds: float, *, everything: bool) -> str:
    """Return the last line: the counts, the time in milliseconds, and the commands that show more."""
    nouns = {"pci": "PCI", "usb": "USB", "net": "net", "dev": "device nodes"}
    counts = {label: report.count_items(label) for label in dict.fromkeys(item.label for item in report.items)}
    read_texts = [f"{counts.pop(label)} {noun}" for label, noun in nouns.items() if label in counts]
    read_texts += [format_count(sum(counts.values()), "other")] if counts else []
    hint = "" if everything else " Everything: scan --all."
    return f"{', '.join(read_texts) or 'Nothing'} read in {milliseconds:.0f} ms.{hint} One: scan DEVICE."


def format_taker(item: HostReportItem) -> str:
    """Return the resource with its shares, or a dash with the nearest resource or a matching class."""
    if item.entry is not None:
        shares = f" ×{item.device.shares}" if item.device is not None and item.device.shares is not None else ""
        state = (
            " waits" if item.unlisted_reason else " Unhealthy" if item.device is not None and item.device.reason else ""
        )
        return f"{item.resource}{shares}{state}"
    nearest_resource = next(
        (entry_mismatch.mismatch.resource for entry_mismatch in item.mismatches if entry_mismatch.is_only_mismatch), ""
    )
    if nearest_resource:
        return f"–  nearest: {nearest_resource}"
    return f"–  class {item.matching_classes[0]} fits" if item.matching_classes else "–"


def _is_relevant(report: HostReport, item: HostReportItem) -> bool:
    if (
        item.entry
        or item.matching_classes
        or any(entry_mismatch.is_only_mismatch for entry_mismatch in item.mismatches)
    ):
        return True
    return item.label == "pci" and not str(report.read_fact(item, "class")).startswith(_BRIDGE)


def _build_lines(report: HostReport, items: Iterable[HostReportItem]) -> list[_Line]:
    names = PciNames(report.root)
    lines: list[_Line] = []
    for item in items:
        summary = summarize_device(report, item, names)
        is_unhealthy = item.device is not None and bool(item.device.reason)
        lines.append(
            _Line(
                name=f"{item.label} {make_printable(item.host.name, None)}",
                text=summary.text,
                group_text=summary.group_text,
                driver=format_value(report.read_fact(item, "driver")),
                taker=format_taker(item),
                style="red" if is_unhealthy else "" if item.entry else "dim",
                numa=[format_value(report.read_fact(item, "numa"))],
                count=1,
            )
        )
    return lines


def _fold_lines(lines: Sequence[_Line]) -> list[_Line]:
    """Return one line for each set of equal lines, at the position of the first."""
    lines_by_key: dict[tuple[str, ...], _Line] = {}
    for line in lines:
        key = (line.name.partition(" ")[0], line.group_text, line.driver, line.taker)
        first_line = lines_by_key.setdefault(key, line)
        if first_line is not line:
            first_line.count += 1
            first_line.numa += line.numa
    return list(lines_by_key.values())
