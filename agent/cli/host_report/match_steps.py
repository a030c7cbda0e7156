"""Explain the devices of a resource: the number of host devices that remain after each clause, and next steps."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from agent.cli.host_report.host_report import EntryMismatch, HostReport, HostReportItem
from agent.cli.table import Column, Row, render
from agent.cli.terminal import Terminal
from agent.core.entry.resource_spec import ResourceSpec
from agent.core.inventory.device import Device
from agent.core.inventory.matching import Mismatch
from agent.core.language.clause import ClauseLine, Origin
from agent.core.language.safe_text import escape, format_count, make_printable
from agent.core.language.value import Absent
from agent.core.struct import Struct
from agent.host import udev
from agent.scanners.glob_files import is_glob

TOPOLOGY_HINT = 'exclude devices without a node, or set topology = "none", or set the nodes of all: topology = [0]'
_SHOWN = 3  # excluded devices with their names


class MatchStep(Struct):
    """One clause, the number of host devices that remain after it, and the devices that it excludes."""

    text: str
    origin: Origin | None
    remaining: int
    mismatches: tuple[tuple[HostReportItem, EntryMismatch], ...] = ()


def build_match_steps(report: HostReport, spec: ResourceSpec) -> list[MatchStep]:
    """Return the steps in the order of evaluation: `exclude`, then `match`."""
    mismatches_by_clause = {**report.mismatches_by_clause.get(spec.name, {})}
    # Devices that do not match alone, but belong to a group that the entry takes.
    member_count = sum(
        item.entry is spec for step_mismatches in mismatches_by_clause.values() for item, _ in step_mismatches
    )
    remaining = report.totals.get(spec.source, 0)
    steps = [MatchStep(f"source {spec.source}", spec.origin, remaining)]
    taken_count = sum(item.entry is spec for item in report.items) - member_count
    earlier_count = remaining - taken_count - sum(map(len, mismatches_by_clause.values()))
    if earlier_count:
        remaining -= earlier_count
        steps.append(MatchStep("taken by an earlier entry", None, remaining))
    for clause in (*spec.exclude, spec.match):
        for line in clause.lines:
            step_mismatches = tuple(mismatches_by_clause.pop(line.address, ()))
            remaining -= len(step_mismatches)
            steps.append(
                MatchStep(f"{line.address} = {escape(line.source_text)}", line.origin, remaining, step_mismatches)
            )
    for address, other_mismatches in mismatches_by_clause.items():
        remaining -= len(other_mismatches)
        steps.append(MatchStep(address, other_mismatches[0][1].mismatch.origin, remaining, tuple(other_mismatches)))
    return steps


def find_last_mismatch(steps: Sequence[MatchStep]) -> tuple[HostReportItem, EntryMismatch] | None:
    """Return a device that the last excluding clause excludes, with its mismatch. Return None if no clause excludes a
    device.
    """
    return next((step.mismatches[0] for step in reversed(steps) if step.mismatches), None)


def format_match_steps(report: HostReport, spec: ResourceSpec, terminal: Terminal) -> list[str]:
    """Return the lines with the steps, the listed devices and the unlisted candidates. Without a device, add next
    steps.
    """
    steps = build_match_steps(report, spec)
    rows = [
        Row(
            (step.text, str(step.origin or ""), str(step.remaining), _format_mismatches(step)),
            "dim" if not step.remaining else "",
        )
        for step in steps
    ]
    columns = (Column("  candidates"), Column(""), Column("left", right=True), Column("excluded here", drop_order=1))
    lines = render(columns, [Row((f"    {row.cells[0]}", *row.cells[1:]), row.style) for row in rows], terminal)
    devices = report.find_listed_devices(spec)
    unhealthy = [device for device in devices if device.reason]
    count = sum(map(len, devices))
    lines.append(f"  devices      {count} listed, {count - sum(map(len, unhealthy))} Healthy")
    lines += _format_topology(report, spec, devices)
    lines += [f"    {device.id}  Unhealthy: {escape(str(device.reason))}" for device in unhealthy]
    for unlisted in report.unlisted:
        if unlisted.resource == spec.name:
            lines.append(f"    {make_printable(unlisted.location, None)}  not listed: {escape(unlisted.reason)}")
    if not count:
        lines += [f"  next         {line}" for line in suggest_next_steps(report, spec, steps)]
    return [terminal.make_displayable(line) for line in lines]


def _format_topology(report: HostReport, spec: ResourceSpec, devices: Sequence[Device]) -> Iterator[str]:
    """Yield the number of devices on each NUMA node, or the reason why the topology is withheld."""
    for name in report.find_resource_names(spec):
        if (withheld := report.withheld_topology.get(name)) is not None:
            yield f"  topology     none: {escape(withheld.text)}"
            yield f"  next         {TOPOLOGY_HINT}"
            return
    nodes = Counter(device.numa for device in devices if device.numa)
    if nodes:
        counts = (f"{' and '.join(map(str, numa))}: {count}" for numa, count in sorted(nodes.items()))
        yield f"  topology     NUMA {', '.join(counts)}"


def suggest_next_steps(report: HostReport, spec: ResourceSpec, steps: Sequence[MatchStep]) -> Iterator[str]:
    """Yield next steps for a resource without devices."""
    if not steps[0].remaining:
        yield _explain_empty_source(report, spec)
        reported_paths = set(
            filter(is_glob, spec.source.arguments[:1])
        )  # the line above reports that nothing matches this pattern
        skipped_paths = [
            skipped_path
            for skipped_path in report.skipped_paths.get(spec.source, ())
            if skipped_path.path not in reported_paths
        ]
        for skipped_path in skipped_paths[:_SHOWN]:
            yield f"{make_printable(skipped_path.path, None)}: {escape(skipped_path.reason)}"
        return
    near_mismatches = [
        (item, entry_mismatch)
        for step in steps
        for item, entry_mismatch in step.mismatches
        if entry_mismatch.is_only_mismatch
    ]
    for item, entry_mismatch in near_mismatches[:_SHOWN]:
        mismatch = entry_mismatch.mismatch
        yield (
            f"{item.label} {make_printable(item.host.name, None)} fails only one line: {mismatch.address} = "
            f"{escape(mismatch.source_text)}, here {make_printable(mismatch.facts_text)} ({mismatch.origin})"
        )
    if not near_mismatches:
        last_mismatch = find_last_mismatch(steps)
        if last_mismatch is not None:
            name = make_printable(last_mismatch[0].host.name, None)
            yield f"the last excluded device: device-agent scan {name} shows its words"


def _format_mismatches(step: MatchStep) -> str:
    """Return the number of excluded devices, the names of the first ones, and their value if all values are equal."""
    if not step.mismatches:
        return ""
    values = dict.fromkeys(entry_mismatch.mismatch.facts_text for _, entry_mismatch in step.mismatches)
    names = ", ".join(make_printable(item.host.name, None) for item, _ in step.mismatches[:_SHOWN])
    ellipsis = "" if len(step.mismatches) <= _SHOWN else ", …"
    value_text = f": here {make_printable(next(iter(values)))}" if len(values) == 1 else ""
    return f"{len(step.mismatches)}  {names}{ellipsis}{value_text}"


def _explain_empty_source(report: HostReport, spec: ResourceSpec) -> str:
    """Return the reason why a source has no device."""
    root = report.root
    if spec.source.kind == "subsystem":
        (name,) = spec.source.arguments
        paths = [path for path in (f"/sys/class/{name}", f"/sys/bus/{name}") if root.is_directory(path)]
        if not paths:
            return f"/sys/class/{name} and /sys/bus/{name} do not exist: no loaded driver makes these devices (lsmod)"
        return f"{paths[0]} is empty: this host has no device of this subsystem"
    if spec.source.kind in {"node", "dir"}:
        pattern = spec.source.arguments[0]
        parts = pattern.split("/")
        index = next((position for position, part in enumerate(parts) if set("*?[{") & set(part)), len(parts) - 1)
        directory = "/".join(parts[:index]) or "/"
        while not root.is_directory(directory):
            directory = directory.rpartition("/")[0] or "/"
        names = root.list_names(directory)
        count = 0 if isinstance(names, Absent) else len(names)
        count_text = format_count(count, "name") if count else "no names"
        unmatched_path = "/".join(parts[: directory.rstrip("/").count("/") + 2])
        return f"{directory} has {count_text}, and none matches {unmatched_path}; the agent serves a new device at once"
    return f"the kernel shows no device of source {spec.source} on this host"


_PLAIN_TEXT = re.compile(r'"[a-z0-9_-]+"')
_UDEV = re.compile(r"(?:.*\.)?udev\.([^.]+)")


def find_match_hints(report: HostReport, item: HostReportItem, mismatch: Mismatch) -> Iterator[str]:
    """Yield the hints. Each hint is a separate solution."""
    absent_word = _find_absent_word(report, item, mismatch)
    if absent_word is not None:
        yield from _find_absent_word_hints(report, item, mismatch, *absent_word)
    else:
        facts = make_printable(mismatch.facts_text)
        yield f"allow {facts} in {mismatch.address} at {mismatch.origin}, then device-agent reload"
    if mismatch.address == "match.driver" and item.label == "pci" and _PLAIN_TEXT.fullmatch(mismatch.source_text):
        driver = mismatch.source_text.strip('"')
        yield f"driverctl set-override {item.host.name} {driver}   (the agent reacts at once)"


def _find_absent_word(report: HostReport, item: HostReportItem, mismatch: Mismatch) -> tuple[str, Absent] | None:
    """Return the word of the clause and the reason why the word is absent. Return None if the word has a value."""
    for spec in (candidate for candidate in report.specs if candidate.name == mismatch.resource):
        for clause in (*spec.exclude, spec.match):
            for line in clause.lines:
                if isinstance(line, ClauseLine) and (line.address, line.origin) == (mismatch.address, mismatch.origin):
                    value = report.get_facts(spec, item.host)(line.word)
                    return (line.word, value) if isinstance(value, Absent) else None
    return None


def _find_absent_word_hints(
    report: HostReport, item: HostReportItem, mismatch: Mismatch, word: str, absent: Absent
) -> Iterator[str]:
    """Yield hints for a word without a value: give the word a value, or use another word."""
    if absent.pending:
        yield f"wait until {make_printable(word)} has a value ({make_printable(absent.reason)})"
        return
    if absent.unreadable:
        reason = make_printable(absent.reason)
        yield f"make {make_printable(word)} readable ({reason}; the next full rescan reads it)"
    elif udev_match := _UDEV.fullmatch(word):
        if udev.has_database(report.root):
            yield f"a udev rule that sets {make_printable(udev_match[1])}, then udevadm trigger"
        else:
            yield f"start udevd, and mount {udev.DATABASE} into the container of the agent"
    scan_command = f"device-agent scan {make_printable(item.host.name, None)}"
    yield f"use a word that has a value ({scan_command}) at {mismatch.origin}, then device-agent reload"
