"""One host device in full: its words, its nodes, how to match it, who takes it and who does not."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from string import digits

from agent.cli.host_report.device_overview import format_taker
from agent.cli.host_report.device_summary import format_node_number, format_value, summarize_device
from agent.cli.host_report.device_words import read_facts
from agent.cli.host_report.host_report import EntryMismatch, HostReport, HostReportItem
from agent.cli.host_report.pci_names import PciNames
from agent.cli.host_report.word_list import list_paths
from agent.cli.table import Column, Row, grid, render
from agent.cli.terminal import Terminal, cut
from agent.core.entry.check import CheckVerdict
from agent.core.entry.check_results import DeviceCheckResult
from agent.core.language.glob import escape_glob
from agent.core.language.safe_text import LIMIT, escape, make_printable
from agent.core.language.value import Absent, Value
from agent.scanners.common_words import EVERY

INDENT = "    "
# What tells a device apart, best first; a clause is made of those that are there.
_TELLING = {
    "pci": ("vendor", "device", "subsystem_device", "netdev.name", "vf_index", "address"),
    "usb": ("vendor", "product", "serial", "port"),
}
_SAID = {
    CheckVerdict.PASS: "holds",
    CheckVerdict.FAIL: "does not hold",
    CheckVerdict.IGNORED: "cannot be told",
    CheckVerdict.NOT_APPLICABLE: "does not apply",
    CheckVerdict.PENDING: "is not known yet",
}
_OTHERS = ("name", "usb.vendor", "usb.product", "usb.serial", "pci.address")
_ENOUGH = {"serial": "port"}  # where the first is there, the second is not needed


def format_detail(inventory: HostReport, item: HostReportItem, terminal: Terminal) -> list[str]:
    """All that can be said of a device."""
    lines = [
        format_title(inventory, item, terminal),
        "  attributes   (the left side is what match, exclude and texts call them)",
    ]
    lines += _words(inventory, item, terminal)
    lines += _nodes(inventory, item)
    lines += _beside(inventory, item)
    source, clause = build_clause(inventory, item)
    lines += [
        "  as a clause",
        f"{INDENT}{source}",
        *([f"{INDENT}{clause}"] if clause else []),
        *_alike(inventory, item),
    ]
    lines += [*format_match_result(item, terminal), *format_nearby_devices(inventory, item)]
    return [terminal.text(line) for line in lines]


def format_title(inventory: HostReport, item: HostReportItem, terminal: Terminal) -> str:
    """Its name, and what it is."""
    said = summarize_device(inventory, item, PciNames(inventory.root)).text
    name = terminal.style(f"{item.label} {make_printable(item.host.name, None)}", "bold")
    return f"{name}   {said}" if said else name


def format_match_result(item: HostReportItem, terminal: Terminal, agent: Sequence[str] = ()) -> list[str]:
    """Who takes a device, and the first clause of each entry that does not.

    agent: what an agent that runs says of it, in place of what this look says of its health.
    """
    lines = [*_taker(item), *(agent or _health(item))]
    if item.mismatches:
        lines.append("  turned down")
        lines += [f"{INDENT}{line}" for line in _refusals(item.mismatches, terminal)]
    elif item.entry is None:
        lines.append("  turned down  by no entry: none looks where this is")
    return lines


def format_nearby_devices(inventory: HostReport, item: HostReportItem) -> Iterator[str]:
    """Of what nothing takes: who has the device that carries it, and what is taken of the things below it.

    The interface of a function that an entry takes, the tty of a USB device.
    """
    if item.entry is not None or not item.host.directory:
        return
    here = f"{item.host.directory}/"
    places = {other.host.directory for other in inventory.items} - {"", item.host.directory}
    nearest = max((place for place in places if here.startswith(f"{place}/")), key=len, default=None)
    taken = [other for other in inventory.items if other.entry is not None]
    said = {
        "above it": [other for other in taken if other.host.directory == nearest],
        "below it": [other for other in taken if other.host.directory.startswith(here)],
    }
    for where, others in said.items():
        for index, other in enumerate(others):
            name = make_printable(other.host.node or other.host.name, None)
            known = f" as {other.device.id}" if other.device else ""
            yield f"  {'' if index else where:11}  {name} is taken by {other.resource}{known}"


def build_clause(inventory: HostReport, item: HostReportItem) -> tuple[str, str]:
    """A `source` line and a `match` line of TOML that this device meets; the second is empty where none is needed."""
    kind, label = item.host.source, item.label
    if kind in {"node", "dir"}:
        path = "/".join(escape_glob(part) for part in item.host.name.split("/"))
        return f"source = {{ {kind} = {quote_toml(path)} }}", ""
    if kind == "fixed":
        return f"source = {{ fixed = {quote_toml(item.host.name)} }}", ""
    source = f"source = {{ subsystem = {quote_toml(label)} }}" if kind == "subsystem" else f'source = "{kind}"'
    pairs: dict[str, str] = {}
    for word in _TELLING.get(kind, _OTHERS):
        value = inventory.read_fact(item, word)
        if _writable(value) and not any(enough in pairs and word == spared for enough, spared in _ENOUGH.items()):
            pairs[word] = format_operand(value)
    if kind == "pci" and len(pairs) > 3:
        pairs.pop("address", None)
    clause = ", ".join(f"{word} = {text}" for word, text in pairs.items())
    return source, f"match = {{ {clause} }}" if clause else ""


def quote_toml(text: str) -> str:
    """The text as TOML; only for what is printable."""
    return json.dumps(text, ensure_ascii=False)


def format_operand(value: Value | Absent) -> str:
    """A value as TOML."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int) else quote_toml(str(value))


def _writable(value: Value | Absent) -> bool:
    """Whether a value can stand in a file as it is: one, and without anything that is not seen."""
    return not isinstance(value, Absent | tuple) and escape(str(value)) == str(value) != ""


def _words(inventory: HostReport, item: HostReportItem, terminal: Terminal) -> Iterator[str]:
    there: list[tuple[str, str]] = []
    missing: list[str] = []
    unread: list[str] = []
    for word, value in read_facts(inventory, item):
        if isinstance(value, Absent):
            if value.unreadable:
                unread.append(f"{INDENT}{word}  {value.reason}")
            else:
                missing.append(word)
        else:
            there.append((word, format_value(value) or "(empty)"))
    yield from grid(there, terminal, INDENT)
    yield from unread
    if missing:
        yield f"  absent       {', '.join(missing)}"


def _nodes(inventory: HostReport, item: HostReportItem) -> Iterator[str]:
    paths = inventory.read_fact(item, "nodes")
    if isinstance(paths, Absent) or not paths:
        yield "  nodes        none"
        return
    for index, path in enumerate(paths if isinstance(paths, tuple) else (paths,)):
        node = inventory.root.find_node(str(path))
        said = node.reason if isinstance(node, Absent) else format_node_number(node)
        yield f"  {'nodes' if index == 0 else '':11}  {make_printable(str(path), None)}   {said}"


def _beside(inventory: HostReport, item: HostReportItem) -> Iterator[str]:
    """What its directory has beside words; of a PCI or USB device that is much, and everybody's."""
    if item.host.source in {"node", "subsystem", "dir"}:
        words = {word.kernel for word in EVERY.words.values()}
        if found := list_paths(inventory.root, item.host.directory, words):
            yield f"  paths        not read here: {' '.join(found)}"


def _alike(inventory: HostReport, item: HostReportItem) -> Iterator[str]:
    """For a node that is one of several: the source that shows them all, whatever their numbers."""
    subsystem, name = inventory.read_fact(item, "subsystem"), item.host.directory.rpartition("/")[2]
    if item.host.source == "node" and name[-1:].isdigit() and _writable(subsystem):
        like = quote_toml(f"{escape_glob(name.rstrip(digits))}[0-9]*")
        yield "  or all alike"
        yield f"{INDENT}source = {{ subsystem = {quote_toml(str(subsystem))} }}"
        yield f"{INDENT}match = {{ name = {{ like = {like} }} }}"


def _taker(item: HostReportItem) -> Iterator[str]:
    spec = item.entry
    if spec is None:
        near = format_taker(item).removeprefix("–").strip()
        yield f"  taken by     nothing{f' ({near})' if near else ''}"
        for name in item.matching_classes:
            yield f'  to serve it  [[resource]]  name = "example.com/{name}"  class = "{name}"'
        return
    device = item.device
    known = f" as {device.id}" if device else ""
    shares = f" ×{device.shares}" if device and device.shares is not None else ""
    of = f", class {spec.class_name}" if spec.class_name else ""
    yield f"  taken by     {item.resource}{shares}{known}    {spec.origin}{of}"
    if item.other_members:
        along = any(turned.mismatch.resource == spec.name for turned in item.mismatches)
        said = "comes along  with" if along else "together     with"
        yield f"  {said} {', '.join(make_printable(name, None) for name in item.other_members)}"


def _health(item: HostReportItem) -> Iterator[str]:
    device = item.device
    if item.entry is None:
        return
    if device is None:
        yield f"  health       not listed: {escape(item.unlisted_reason) or 'each slot gives it with the others'}"
    else:
        yield f"  health       {device.health.value}{f': {escape(str(device.reason))}' if device.reason else ''}"
    yield from _checks(item.check_results)


def _checks(checks: Sequence[DeviceCheckResult]) -> Iterator[str]:
    """What each check says now, whatever that does to health, which takes its time."""
    longest = max((len(one.check.name) for one in checks), default=0)
    for index, one in enumerate(checks):
        said = _SAID[one.result.verdict] + (f": {escape(one.result.reason)}" if one.result.reason else "")
        yield f"  {'checks' if index == 0 else '':11}  {one.check.name:{longest}}  {said}"


def _refusals(turned_down: tuple[EntryMismatch, ...], terminal: Terminal) -> list[str]:
    rows = [
        Row(
            (
                turned.mismatch.resource,
                f"{turned.mismatch.address} = {cut(escape(turned.mismatch.written), LIMIT)}",
                f"here {make_printable(turned.mismatch.here)}",
                str(turned.mismatch.origin),
                "all else in the clause holds" if turned.is_only_mismatch else "",
            )
        )
        for turned in sorted(turned_down, key=lambda turned: not turned.is_only_mismatch)
    ]
    width = None if terminal.width is None else max(1, terminal.width - len(INDENT))
    columns = (Column(""), Column(""), Column(""), Column(""), Column("", leaves=1))
    plain = Terminal(width, unicode=terminal.unicode)
    return render(columns, rows, plain)[1:]
