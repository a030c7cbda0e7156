"""Why a resource has the devices it has: how many host devices are left after each clause, and what to do next."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from agent.cli.host_report.host_report import EntryMismatch, HostReport, HostReportItem
from agent.cli.table import Column, Row, render
from agent.cli.terminal import Terminal
from agent.core.entry.resource_spec import ResourceSpec
from agent.core.inventory.device import Device
from agent.core.language.clause import Origin
from agent.core.language.safe_text import escape, format_count, make_printable
from agent.core.language.value import Absent
from agent.core.struct import Struct
from agent.scanners.glob_files import is_glob

TOPOLOGY_HINT = 'exclude what has none, or say topology = "none", or the nodes of all: topology = [0]'
_SHOWN = 3  # devices that are named where some fell


class MatchStep(Struct):
    """One clause: how many host devices are left after it, and those that fell by it."""

    text: str
    origin: Origin | None
    remaining: int
    mismatches: tuple[tuple[HostReportItem, EntryMismatch], ...] = ()


def build_match_steps(inventory: HostReport, spec: ResourceSpec) -> list[MatchStep]:
    """The fall of a resource's candidates, in the order in which clauses are asked: `exclude`, then `match`."""
    down = {**inventory.mismatches_by_clause.get(spec.name, {})}
    # Turned down by themselves, and of a group that the entry takes as a whole.
    along = sum(item.entry is spec for fell in down.values() for item, _ in fell)
    left = inventory.totals.get(spec.source, 0)
    made = [MatchStep(f"source {spec.source}", spec.origin, left)]
    taken = sum(item.entry is spec for item in inventory.items) - along
    before = left - taken - sum(map(len, down.values()))
    if before:
        left -= before
        made.append(MatchStep("taken by an earlier entry", None, left))
    for clause in (*spec.exclude, spec.match):
        for line in clause.lines:
            fell = tuple(down.pop(line.address, ()))
            left -= len(fell)
            made.append(MatchStep(f"{line.address} = {escape(line.source_text)}", line.origin, left, fell))
    for address, others in down.items():
        left -= len(others)
        made.append(MatchStep(address, others[0][1].mismatch.origin, left, tuple(others)))
    return made


def find_last_mismatch(fall: Sequence[MatchStep]) -> tuple[HostReportItem, EntryMismatch] | None:
    """A candidate that came furthest, and by what it fell; none if none fell by a clause."""
    return next((step.mismatches[0] for step in reversed(fall) if step.mismatches), None)


def format_match_steps(inventory: HostReport, spec: ResourceSpec, terminal: Terminal) -> list[str]:
    """Where the candidates fell, what is listed, what is not and why, and a next step where nothing is."""
    fall = build_match_steps(inventory, spec)
    rows = [
        Row((step.text, str(step.origin or ""), str(step.remaining), _fell(step)), "dim" if not step.remaining else "")
        for step in fall
    ]
    columns = (Column("  candidates"), Column(""), Column("left", right=True), Column("fell here", leaves=1))
    lines = render(columns, [Row((f"    {row.cells[0]}", *row.cells[1:]), row.style) for row in rows], terminal)
    listed = inventory.find_listed_devices(spec)
    unhealthy = [device for device in listed if device.reason]
    count = sum(map(len, listed))
    lines.append(f"  devices      {count} listed, {count - sum(map(len, unhealthy))} Healthy")
    lines += _topology(inventory, spec, listed)
    lines += [f"    {device.id}  Unhealthy: {escape(str(device.reason))}" for device in unhealthy]
    for left in inventory.unlisted:
        if left.resource == spec.name:
            lines.append(f"    {make_printable(left.place, None)}  not listed: {escape(left.reason)}")
    if not count:
        lines += [f"  next         {line}" for line in suggest_next_steps(inventory, spec, fall)]
    return [terminal.text(line) for line in lines]


def _topology(inventory: HostReport, spec: ResourceSpec, listed: Sequence[Device]) -> Iterator[str]:
    """On which NUMA nodes the devices are; or by which of them that is not told."""
    for name in inventory.find_resource_names(spec):
        if (silent := inventory.withheld_topology.get(name)) is not None:
            yield f"  topology     none: {escape(silent.said)}"
            yield f"  next         {TOPOLOGY_HINT}"
            return
    nodes = Counter(device.numa for device in listed if device.numa)
    if nodes:
        said = (f"{' and '.join(map(str, numa))}: {count}" for numa, count in sorted(nodes.items()))
        yield f"  topology     NUMA {', '.join(said)}"


def suggest_next_steps(inventory: HostReport, spec: ResourceSpec, fall: Sequence[MatchStep]) -> Iterator[str]:
    """What a person may look at where a resource has no device."""
    if not fall[0].remaining:
        yield _nothing_there(inventory, spec)
        said = set(filter(is_glob, spec.source.arguments[:1]))  # that nothing fits this one is said by the line above
        others = [each for each in inventory.skipped_paths.get(spec.source, ()) if each.path not in said]
        for oddity in others[:_SHOWN]:
            yield f"{make_printable(oddity.path, None)}: {escape(oddity.reason)}"
        return
    near = [(item, turned) for step in fall for item, turned in step.mismatches if turned.is_only_mismatch]
    for item, turned in near[:_SHOWN]:
        refusal = turned.mismatch
        yield (
            f"{item.label} {make_printable(item.host.name, None)} is one clause short: {refusal.address} = "
            f"{escape(refusal.written)}, here {make_printable(refusal.here)} ({refusal.origin})"
        )
    if not near:
        last = find_last_mismatch(fall)
        if last is not None:
            name = make_printable(last[0].host.name, None)
            yield f"the last to fall: device-agent scan {name} shows what is there to match"


def _fell(step: MatchStep) -> str:
    """How many fell, the first of them by name, and what was read."""
    if not step.mismatches:
        return ""
    heres = dict.fromkeys(turned.mismatch.here for _, turned in step.mismatches)
    names = ", ".join(make_printable(item.host.name, None) for item, _ in step.mismatches[:_SHOWN])
    more = "" if len(step.mismatches) <= _SHOWN else ", …"
    here = f": here {make_printable(next(iter(heres)))}" if len(heres) == 1 else ""
    return f"{len(step.mismatches)}  {names}{more}{here}"


def _nothing_there(inventory: HostReport, spec: ResourceSpec) -> str:
    """Why a source shows nothing at all."""
    root = inventory.root
    if spec.source.kind == "subsystem":
        (name,) = spec.source.arguments
        places = [place for place in (f"/sys/class/{name}", f"/sys/bus/{name}") if root.is_directory(place)]
        if not places:
            return (
                f"neither /sys/class/{name} nor /sys/bus/{name} is there: no loaded driver makes such devices (lsmod)"
            )
        return f"{places[0]} is there, and empty: no device of it is on this host"
    if spec.source.kind in {"node", "dir"}:
        pattern = spec.source.arguments[0]
        parts = pattern.split("/")
        index = next((at for at, part in enumerate(parts) if set("*?[{") & set(part)), len(parts) - 1)
        directory = "/".join(parts[:index]) or "/"
        while not root.is_directory(directory):
            directory = directory.rpartition("/")[0] or "/"
        names = root.list_names(directory)
        count = 0 if isinstance(names, Absent) else len(names)
        names_there = format_count(count, "name") if count else "no names"
        missing = "/".join(parts[: directory.rstrip("/").count("/") + 2])
        return f"{directory} has {names_there}, and none fits {missing}; a device that comes is served at once"
    return f"the kernel shows no device of source {spec.source} on this host"
