"""What a configuration makes of one host, as findings: entries that find nothing there, and devices that two want."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from agent.cli.host_report.host_report import HostReport, HostReportItem
from agent.cli.host_report.match_steps import TOPOLOGY_HINT, MatchStep, build_match_steps, find_last_mismatch
from agent.config.load import ConfigEntry
from agent.config.merge.config_tree import Branch, Leaf
from agent.config.toml.file_position import FilePosition
from agent.config.toml.finding import Finding
from agent.core.entry.resource_spec import ResourceSpec
from agent.core.entry.shadowing import shadows
from agent.core.inventory.matching import match_entry
from agent.core.language.safe_text import format_count, make_printable
from agent.core.struct import replace
from agent.host.numa import list_numa_nodes


def find_host_findings(entries: Sequence[ConfigEntry], inventory: HostReport, where: str) -> Iterator[Finding]:
    """Warnings of entries that are served, about the host called `where`; those that an entry accepts are left out."""
    given: dict[str, ResourceSpec] = {}
    order = {id(spec): index for index, spec in enumerate(inventory.specs)}
    judged_by = {spec.origin: spec for spec in inventory.specs}
    for entry in entries:
        spec = judged_by.get(entry.spec.origin) if entry.spec else None
        if spec is None:
            continue
        accepts = entry.merged_entry.tree.get_branch("accept")
        accepted = accepts.members if accepts else {}
        taken = [item for item in inventory.items if item.entry is spec]
        lost = [item for item in inventory.items if _wants(spec, item, inventory, order)]
        own = [node for item in taken for node in _own_nodes(inventory, item)]
        twice = [node for node in own if node in given]
        if any(
            other is not None and shadows(other, spec)
            for other in {id(item.entry): item.entry for item in lost}.values()
        ):
            continue  # of any host: said already
        if "overlap" not in accepted and lost:
            yield _named(entry, _overlap(entry, lost, where))
        elif "overlap" not in accepted and twice:
            yield _named(entry, _given_twice(entry, twice, given[twice[0]], where))
        elif "overlap" not in accepted and (pair := _of_one_thing(taken, inventory, order)) is not None:
            yield _named(entry, _one_thing(entry, *pair, where))
        elif "never-matches" not in accepted and not taken and not lost and spec.slots is None:
            yield _named(entry, _never_matches(entry, build_match_steps(inventory, spec), where))
        given.update(dict.fromkeys(own, spec))
        if "no-topology" not in accepted and len(list_numa_nodes(inventory.root)) > 1:
            yield from _silent(entry, spec, inventory, where)


def _wants(spec: ResourceSpec, item: HostReportItem, inventory: HostReport, order: Mapping[int, int]) -> bool:
    """Whether an entry would take what an earlier one has. order: which of the entries each is, by `id`."""
    other, host = item.entry, inventory.found[spec.source].get(item.host.key)
    if other is None or other is spec or host is None:
        return False
    return order[id(other)] < order[id(spec)] and match_entry(spec, inventory.get_facts(spec, host)) is None


def _own_nodes(inventory: HostReport, item: HostReportItem) -> list[str]:
    """The nodes that a device gives and that are its own or below it: what is given beside them is nobody's."""
    given = [node.path for node in item.device.nodes] if item.device else []
    own = inventory.read_fact(item, "nodes") if given else ()
    return [node for node in given if isinstance(own, tuple) and node in own]


def _given_twice(entry: ConfigEntry, nodes: Sequence[str], other: ResourceSpec, where: str) -> Finding:
    """A node given with two host devices: two pods can get it."""
    more = f" and {len(nodes) - 1} more" if len(nodes) > 1 else ""
    message = f"{make_printable(nodes[0], None)}{more} of {where} is given by {other.name} too ({other.origin})"
    return _spot(entry, "source").make_warning("overlap", message, "exclude it in one of them", mark="key")


def _of_one_thing(
    taken: Sequence[HostReportItem], inventory: HostReport, order: Mapping[int, int]
) -> tuple[HostReportItem, HostReportItem] | None:
    """What an entry takes, and what an earlier one has that is the same thing: what a PCI function or a USB device
    carries, and that function or device. Entries with `slots` take nothing from others.
    """
    for item in taken:
        for other in inventory.find_same_hardware(item):
            one, before = item.entry, other.entry
            if one is None or before is None or one.slots is not None or before.slots is not None:
                continue
            if order[id(before)] < order[id(one)]:
                return item, other
    return None


def _one_thing(entry: ConfigEntry, item: HostReportItem, other: HostReportItem, where: str) -> Finding:
    """Two pods can get it, each by another of its faces."""
    named = " and ".join(f"{one.label} {make_printable(one.host.name, None)}" for one in (item, other))
    has = other.entry
    message = (
        f"{named} of {where} are one thing, and {has.name if has else ''} has the latter ({has.origin if has else ''})"
    )
    return _spot(entry, "source").make_warning("overlap", message, "exclude it in one of them", mark="key")


def _overlap(entry: ConfigEntry, lost: Sequence[HostReportItem], where: str) -> Finding:
    first = lost[0].entry
    count = f"{format_count(len(lost), 'device')} of {where} match{'es' * (len(lost) == 1)}"
    message = f"{count} {first.name if first else ''} too ({first.origin if first else ''}), which has them"
    return _spot(entry, "match").make_warning(
        "overlap", message, "exclude them here, or put this entry first", mark="key"
    )


def _never_matches(entry: ConfigEntry, fall: Sequence[MatchStep], where: str) -> Finding:
    """At the clause by which the last of them fell, or at the source where it shows nothing."""
    last = find_last_mismatch(fall)
    if last is None:
        shown = fall[0].remaining
        message = f"there is none of these on {where}: 0 devices"
        if shown:
            message = (
                f"all {shown} of these on {where} are taken by earlier entries: 0 devices"
                if shown > 1
                else f"the one of these on {where} is taken by an earlier entry: 0 devices"
            )
        write = f"device-agent explain {entry.spec.name if entry.spec else ''} says what to do"
        return _spot(entry, "source").make_warning("never-matches", message, write, mark="key")
    item, turned = last
    section, _, address = turned.mismatch.address.partition(".")
    name, facts = make_printable(item.host.name, None), make_printable(turned.mismatch.here)
    message = f"the last to fall on {where} is {name}, here {facts}"
    write = f"device-agent explain {entry.spec.name if entry.spec else ''} shows how"
    return _spot(entry, section, address).make_warning("never-matches", f"{message}: 0 devices", write)


def _silent(entry: ConfigEntry, spec: ResourceSpec, inventory: HostReport, where: str) -> Iterator[Finding]:
    for name in inventory.find_resource_names(spec):
        if not spec.is_addition and (silent := inventory.withheld_topology.get(name)) is not None:
            message = f"on {where} {make_printable(silent.said, None)}"
            yield _spot(entry, "topology").make_warning("no-topology", message, TOPOLOGY_HINT, mark="key")


def _named(entry: ConfigEntry, finding: Finding) -> Finding:
    """What stands at a line of a class names the entry: many may use that class."""
    if entry.spec is None or finding.file == entry.spec.origin.file:
        return finding
    return replace(finding, message=f"{entry.spec.name}: {finding.message}")


def _spot(entry: ConfigEntry, section: str, address: str = "") -> FilePosition:
    """Where a clause, a section or, failing that, the entry was written."""
    tree = entry.merged_entry.tree
    node = tree.members.get(section)
    if section == "exclude" and isinstance(node, Branch):
        name, _, address = address.partition(".")
        node = node.members.get(name)
    if isinstance(node, Branch) and address in node.members:
        node = node.members[address]
    return node.spot if isinstance(node, Leaf | Branch) else entry.spot
