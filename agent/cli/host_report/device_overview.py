"""The overview: a line for each host device that matters, alike ones folded on a screen."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from agent.cli.host_report.device_summary import format_value, summarize_device
from agent.cli.host_report.host_report import HostReport, HostReportItem
from agent.cli.host_report.pci_names import PciNames
from agent.cli.table import Column, Row, left_out, render
from agent.cli.terminal import Terminal
from agent.core.language.safe_text import format_count, make_printable
from agent.core.language.value import Absent, format_scalar
from agent.core.struct import MutableStruct, field

COLUMNS = (
    Column("HOST DEVICE"),
    Column("WHAT", narrowest=12, leaves=1),
    Column("NUMA", right=True, leaves=2),
    Column("DRIVER", leaves=3),
    Column("TAKEN BY"),
)
_WIDE = (
    Column("HANGS ON", leaves=5),
    Column("IOMMU", right=True, leaves=6),
    Column("NODES", leaves=7),
    Column("SERIAL", leaves=8),
    Column("ID", leaves=4),
)
_BRIDGE = "06"  # base class of bridges: of no use to a pod


class _Line(MutableStruct):
    """What becomes one row: the first of some alike items, and how many more there are."""

    name: str
    one: str
    alike: str
    driver: str
    taken: str
    style: str
    numa: list[str] = field(default_factory=list)
    count: int = 0
    more: tuple[str, ...] = ()


def format_overview(inventory: HostReport, terminal: Terminal, *, everything: bool, wide: bool = False) -> list[str]:
    """The table. Without `everything`: what is taken, nearly taken, would suit a class, or is a PCI function.

    wide: more is said of each, which has a line of its own then; and what there was no room for.
    """
    items = select_items(inventory, everything=everything)
    lines = _lines(inventory, items)
    if wide:
        for line, item in zip(lines, items, strict=True):
            line.more = _more(inventory, item, whole=terminal.width is None)
    elif terminal.width is not None:
        lines = _folded(lines)
    columns = (*COLUMNS[:-1], *(_WIDE if wide else ()), COLUMNS[-1])
    rows = [
        Row(
            (
                f"{line.name} +{line.count - 1}" if line.count > 1 else line.name,
                line.alike if line.count > 1 else line.one,
                " ".join(sorted({numa for numa in line.numa if numa})) or "–",
                line.driver or "–",
                *(said or "–" for said in line.more),
                line.taken,
            ),
            line.style,
        )
        for line in lines
    ]
    table = render(columns, rows, terminal)
    lost = left_out(columns, rows, terminal) if wide else ()
    return [*table, f"No room for {', '.join(lost)}: through a pipe the table has all."] if lost else table


def _more(inventory: HostReport, item: HostReportItem, *, whole: bool) -> tuple[str, ...]:
    """What else is said of a device, as `_WIDE` has it. `whole`: all its nodes."""

    def said(word: str) -> str:
        return format_value(inventory.read_fact(item, word))

    usb, pci = said("usb.port"), said("pci.address")
    if item.label == "pci":
        on = said("pf.address") or said("parent.name")
    elif item.label == "usb":
        on = said("usb.hub") or pci
    else:
        on = usb or pci
    found = inventory.read_fact(item, "nodes")
    nodes = found if isinstance(found, tuple) else () if isinstance(found, Absent) else (found,)
    names = [make_printable(format_scalar(node), None) for node in nodes if node != item.host.name]
    if not whole and len(names) > 1:
        names = [f"{names[0]} +{len(names) - 1}"]
    id_ = make_printable(item.device.id, None) if item.device else ""
    return on, said("pci.iommu.group"), ", ".join(names), said("usb.serial"), id_


def select_items(inventory: HostReport, *, everything: bool) -> list[HostReportItem]:
    """What the table is of."""
    return [item for item in inventory.items if everything or _matters(inventory, item)]


def format_summary(inventory: HostReport, milliseconds: float, *, everything: bool) -> str:
    """The last line: what was read, how long that took, and how to see more."""
    nouns = {"pci": "PCI", "usb": "USB", "net": "net", "dev": "device nodes"}
    counts = {label: inventory.count_items(label) for label in dict.fromkeys(item.label for item in inventory.items)}
    read = [f"{counts.pop(label)} {noun}" for label, noun in nouns.items() if label in counts]
    read += [format_count(sum(counts.values()), "other")] if counts else []
    more = "" if everything else " Everything: scan --all."
    return f"{', '.join(read) or 'Nothing'} read in {milliseconds:.0f} ms.{more} One: scan DEVICE."


def format_taker(item: HostReportItem) -> str:
    """The resource with its shares, or a dash and what is nearest to taking it."""
    if item.entry is not None:
        shares = f" ×{item.device.shares}" if item.device is not None and item.device.shares is not None else ""
        state = (
            " waits" if item.unlisted_reason else " Unhealthy" if item.device is not None and item.device.reason else ""
        )
        return f"{item.resource}{shares}{state}"
    near = next((turned.mismatch.resource for turned in item.mismatches if turned.is_only_mismatch), "")
    if near:
        return f"–  nearest: {near}"
    return f"–  class {item.matching_classes[0]} fits" if item.matching_classes else "–"


def _matters(inventory: HostReport, item: HostReportItem) -> bool:
    if item.entry or item.matching_classes or any(turned.is_only_mismatch for turned in item.mismatches):
        return True
    return item.label == "pci" and not str(inventory.read_fact(item, "class")).startswith(_BRIDGE)


def _lines(inventory: HostReport, items: Iterable[HostReportItem]) -> list[_Line]:
    names = PciNames(inventory.root)
    lines: list[_Line] = []
    for item in items:
        said = summarize_device(inventory, item, names)
        unhealthy = item.device is not None and bool(item.device.reason)
        lines.append(
            _Line(
                name=f"{item.label} {make_printable(item.host.name, None)}",
                one=said.text,
                alike=said.group_text,
                driver=format_value(inventory.read_fact(item, "driver")),
                taken=format_taker(item),
                style="red" if unhealthy else "" if item.entry else "dim",
                numa=[format_value(inventory.read_fact(item, "numa"))],
                count=1,
            )
        )
    return lines


def _folded(lines: Sequence[_Line]) -> list[_Line]:
    """Alike ones as the first of them, in its place."""
    seen: dict[tuple[str, ...], _Line] = {}
    for line in lines:
        key = (line.name.partition(" ")[0], line.alike, line.driver, line.taken)
        first = seen.setdefault(key, line)
        if first is not line:
            first.count += 1
            first.numa += line.numa
    return list(seen.values())
