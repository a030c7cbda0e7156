"""All data of one host device: words, device nodes, a clause that matches, the entry, and the mismatches."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from string import digits

from agent.cli.host_report.device_json import read_facts
from agent.cli.host_report.device_overview import format_taker
from agent.cli.host_report.device_summary import PciNames, format_node_number, format_value, summarize_device
from agent.cli.host_report.host_report import EntryMismatch, HostReport, HostReportItem
from agent.cli.host_report.word_list import list_paths
from agent.cli.table import Column, Row, format_grid, render
from agent.cli.terminal import Terminal, cut
from agent.core.entry.check import CheckVerdict
from agent.core.entry.check_results import DeviceCheckResult
from agent.core.language.glob import escape_glob
from agent.core.language.safe_text import LIMIT, escape, make_printable
from agent.core.language.value import Absent, Value
from agent.scanners.common_words import EVERY

INDENT = "    "
# Words that identify a device, best first. A clause contains the words that have a value.
_CLAUSE_WORDS = {
    "pci": ("vendor", "device", "subsystem_device", "netdev.name", "vf_index", "address"),
    "usb": ("vendor", "product", "serial", "port"),
}
_VERDICT_TEXTS = {
    CheckVerdict.PASS: "passes",
    CheckVerdict.FAIL: "fails",
    CheckVerdict.IGNORED: "has no result",
    CheckVerdict.NOT_APPLICABLE: "does not apply",
    CheckVerdict.PENDING: "has no result yet",
}
_DEFAULT_CLAUSE_WORDS = ("name", "usb.vendor", "usb.product", "usb.serial", "pci.address")
_REDUNDANT_WORDS = {"serial": "port"}  # with the first word, the second word is not necessary


def format_detail(report: HostReport, item: HostReportItem, terminal: Terminal) -> list[str]:
    """Return all lines about a device."""
    lines = [
        format_title(report, item, terminal),
        "  words        (the left side is the word for match, exclude and templates)",
    ]
    lines += _format_words(report, item, terminal)
    lines += _format_nodes(report, item)
    lines += _format_paths(report, item)
    source, clause = build_clause(report, item)
    lines += [
        "  as a clause",
        f"{INDENT}{source}",
        *([f"{INDENT}{clause}"] if clause else []),
        *_format_pattern_source(report, item),
    ]
    lines += [*format_match_result(item, terminal), *format_nearby_devices(report, item)]
    return [terminal.make_displayable(line) for line in lines]


def format_title(report: HostReport, item: HostReportItem, terminal: Terminal) -> str:
    """Return the name of a device and a short description."""
    summary = summarize_device(report, item, PciNames(report.root)).text
    name = terminal.style(f"{item.label} {make_printable(item.host.name, None)}", "bold")
    return f"{name}   {summary}" if summary else name


def format_match_result(item: HostReportItem, terminal: Terminal, agent: Sequence[str] = ()) -> list[str]:
    """Return lines with the entry of a device, and with the first mismatch of each other entry.

    agent: lines of the running agent about the health. They replace the health of this look.
    """
    lines = [*_format_entry(item), *(agent or _format_health(item))]
    if item.mismatches:
        lines.append("  rejected by")
        lines += [f"{INDENT}{line}" for line in _format_mismatches(item.mismatches, terminal)]
    elif item.entry is None:
        lines.append("  rejected by  no entry: no source of an entry shows this device")
    return lines


def format_nearby_devices(report: HostReport, item: HostReportItem) -> Iterator[str]:
    """Yield the entries of the devices above and below a device without entry.

    Examples are the interface of a PCI function, and the terminal of a USB device.
    """
    if item.entry is not None or not item.host.directory:
        return
    prefix = f"{item.host.directory}/"
    places = {other.host.directory for other in report.items} - {"", item.host.directory}
    nearest = max((place for place in places if prefix.startswith(f"{place}/")), key=len, default=None)
    taken_items = [other for other in report.items if other.entry is not None]
    devices_by_label = {
        "above": [other for other in taken_items if other.host.directory == nearest],
        "below": [other for other in taken_items if other.host.directory.startswith(prefix)],
    }
    for label, devices in devices_by_label.items():
        for index, other in enumerate(devices):
            name = make_printable(other.host.node or other.host.name, None)
            id_text = f" as {other.device.id}" if other.device else ""
            yield f"  {'' if index else label:11}  {name} is taken by {other.resource}{id_text}"


def build_clause(report: HostReport, item: HostReportItem) -> tuple[str, str]:
    """Return a `source` line and a `match` line of TOML that match this device. The second line can be empty."""
    kind, label = item.host.source, item.label
    if kind in {"node", "dir"}:
        path = "/".join(escape_glob(part) for part in item.host.name.split("/"))
        return f"source = {{ {kind} = {quote_toml(path)} }}", ""
    if kind == "fixed":
        return f"source = {{ fixed = {quote_toml(item.host.name)} }}", ""
    source = f"source = {{ subsystem = {quote_toml(label)} }}" if kind == "subsystem" else f'source = "{kind}"'
    pairs: dict[str, str] = {}
    for word in _CLAUSE_WORDS.get(kind, _DEFAULT_CLAUSE_WORDS):
        value = report.read_fact(item, word)
        if _is_writable(value) and not any(
            sufficient_word in pairs and word == redundant_word
            for sufficient_word, redundant_word in _REDUNDANT_WORDS.items()
        ):
            pairs[word] = format_operand(value)
    if kind == "pci" and len(pairs) > 3:
        pairs.pop("address", None)
    clause = ", ".join(f"{word} = {text}" for word, text in pairs.items())
    return source, f"match = {{ {clause} }}" if clause else ""


def quote_toml(text: str) -> str:
    """Return a printable text as a TOML string."""
    return json.dumps(text, ensure_ascii=False)


def format_operand(value: Value | Absent) -> str:
    """Return a value as TOML."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int) else quote_toml(str(value))


def _is_writable(value: Value | Absent) -> bool:
    """Return whether a value can stand in a file: a single value with printable characters only."""
    return not isinstance(value, Absent | tuple) and escape(str(value)) == str(value) != ""


def _format_words(report: HostReport, item: HostReportItem, terminal: Terminal) -> Iterator[str]:
    word_values: list[tuple[str, str]] = []
    absent_words: list[str] = []
    unreadable_lines: list[str] = []
    for word, value in read_facts(report, item):
        if isinstance(value, Absent):
            if value.unreadable:
                unreadable_lines.append(f"{INDENT}{word}  {value.reason}")
            else:
                absent_words.append(word)
        else:
            word_values.append((word, format_value(value) or "(empty)"))
    yield from format_grid(word_values, terminal, INDENT)
    yield from unreadable_lines
    if absent_words:
        yield f"  absent       {', '.join(absent_words)}"


def _format_nodes(report: HostReport, item: HostReportItem) -> Iterator[str]:
    paths = report.read_fact(item, "nodes")
    if isinstance(paths, Absent) or not paths:
        yield "  nodes        none"
        return
    for index, path in enumerate(paths if isinstance(paths, tuple) else (paths,)):
        node = report.root.find_node(str(path))
        text = node.reason if isinstance(node, Absent) else format_node_number(node)
        yield f"  {'nodes' if index == 0 else '':11}  {make_printable(str(path), None)}   {text}"


def _format_paths(report: HostReport, item: HostReportItem) -> Iterator[str]:
    """Yield the files in the directory of a device that are no words. PCI and USB devices have too many of them."""
    if item.host.source in {"node", "subsystem", "dir"}:
        words = {word.kernel for word in EVERY.words.values()}
        if quoted_paths := list_paths(report.root, item.host.directory, words):
            yield f"  paths        other files: {' '.join(quoted_paths)}"


def _format_pattern_source(report: HostReport, item: HostReportItem) -> Iterator[str]:
    """Yield a source that matches all devices with this name and any number, if the device is a numbered node."""
    subsystem, name = report.read_fact(item, "subsystem"), item.host.directory.rpartition("/")[2]
    if item.host.source == "node" and name[-1:].isdigit() and _is_writable(subsystem):
        pattern = quote_toml(f"{escape_glob(name.rstrip(digits))}[0-9]*")
        yield "  or all with this name and any number"
        yield f"{INDENT}source = {{ subsystem = {quote_toml(str(subsystem))} }}"
        yield f"{INDENT}match = {{ name = {{ like = {pattern} }} }}"


def _format_entry(item: HostReportItem) -> Iterator[str]:
    spec = item.entry
    if spec is None:
        nearest = format_taker(item).removeprefix("–").strip()
        yield f"  taken by     nothing{f' ({nearest})' if nearest else ''}"
        for name in item.matching_classes:
            yield f'  to serve it  [[resource]]  name = "example.com/{name}"  class = "{name}"'
        return
    device = item.device
    id_text = f" as {device.id}" if device else ""
    shares = f" ×{device.shares}" if device and device.shares is not None else ""
    class_text = f", class {spec.class_name}" if spec.class_name else ""
    yield f"  taken by     {item.resource}{shares}{id_text}    {spec.origin}{class_text}"
    if item.other_members:
        is_group_member = any(entry_mismatch.mismatch.resource == spec.name for entry_mismatch in item.mismatches)
        label = "member of    a group with" if is_group_member else "group with  "
        yield f"  {label} {', '.join(make_printable(name, None) for name in item.other_members)}"


def _format_health(item: HostReportItem) -> Iterator[str]:
    device = item.device
    if item.entry is None:
        return
    if device is None:
        yield f"  health       not listed: {escape(item.unlisted_reason) or 'each slot gives it with the others'}"
    else:
        yield f"  health       {device.health.value}{f': {escape(str(device.reason))}' if device.reason else ''}"
    yield from _format_checks(item.check_results)


def _format_checks(checks: Sequence[DeviceCheckResult]) -> Iterator[str]:
    """Yield the result of each check at this look. The result does not depend on the failure threshold."""
    longest = max((len(result.check.name) for result in checks), default=0)
    for index, result in enumerate(checks):
        text = _VERDICT_TEXTS[result.result.verdict] + (
            f": {escape(result.result.reason)}" if result.result.reason else ""
        )
        yield f"  {'checks' if index == 0 else '':11}  {result.check.name:{longest}}  {text}"


def _format_mismatches(mismatches: tuple[EntryMismatch, ...], terminal: Terminal) -> list[str]:
    rows = [
        Row(
            (
                entry_mismatch.mismatch.resource,
                f"{entry_mismatch.mismatch.address} = {cut(escape(entry_mismatch.mismatch.source_text), LIMIT)}",
                f"here {make_printable(entry_mismatch.mismatch.facts_text)}",
                str(entry_mismatch.mismatch.origin),
                "all other lines match" if entry_mismatch.is_only_mismatch else "",
            )
        )
        for entry_mismatch in sorted(mismatches, key=lambda entry_mismatch: not entry_mismatch.is_only_mismatch)
    ]
    width = None if terminal.width is None else max(1, terminal.width - len(INDENT))
    columns = (Column(""), Column(""), Column(""), Column(""), Column("", drop_order=1))
    plain = Terminal(width, has_unicode=terminal.has_unicode)
    return render(columns, rows, plain)[1:]
