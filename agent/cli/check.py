"""Check the configuration with the rules of `run`, print all errors at once, and warn about entries on this host.

--root replaces this host by a directory tree or a recording. Several --root check one configuration for several kinds
of node. --aloud prints the description of each class and entry first, each clause with its file and line.
Exit code 0: no finding, or only warnings. 1: errors, or with --strict warnings. 4: nothing has the NAME.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Mapping, Sequence

from agent.cli.host_report.host_report import HostReport, HostReportItem
from agent.cli.host_report.match_steps import TOPOLOGY_HINT, MatchStep, build_match_steps, find_last_mismatch
from agent.cli.host_report.scan_host import scan_host
from agent.cli.output import NO_SUCH_NAME, fail, is_json, print_json
from agent.cli.terminal import Terminal
from agent.config.describe.descriptions import Description, NoDescriptionError, find_descriptions
from agent.config.describe.descriptions import convert_to_json as reading_as_json
from agent.config.describe.text_layout import render_description as read
from agent.config.entry_conflicts import ConfigEntry
from agent.config.load import load_with_entries
from agent.config.merge.config_tree import Branch, Leaf
from agent.config.toml.file_position import FilePosition
from agent.config.toml.finding import Finding, Severity, build_json, format_check_summary, render, sort_findings
from agent.core.entry.resource_spec import ResourceSpec
from agent.core.entry.shadowing import shadows
from agent.core.inventory.matching import match_entry
from agent.core.language.safe_text import format_count, make_printable
from agent.core.struct import replace
from agent.host.numa import list_numa_nodes
from agent.host.root import Root

OUTPUTS = ("json", "jsonl")
SEVERAL_ROOTS = True


def find_host_findings(entries: Sequence[ConfigEntry], report: HostReport, host_name: str) -> Iterator[Finding]:
    """Yield the warnings about entries on the host `host_name`. Warnings that an entry accepts are left out."""
    specs_by_node: dict[str, ResourceSpec] = {}
    order = {id(spec): index for index, spec in enumerate(report.specs)}
    specs_by_origin = {spec.origin: spec for spec in report.specs}
    for entry in entries:
        spec = specs_by_origin.get(entry.spec.origin) if entry.spec else None
        if spec is None:
            continue
        accepts = entry.merged_entry.tree.get_branch("accept")
        accepted_codes = accepts.members if accepts else {}
        taken_items = [item for item in report.items if item.entry is spec]
        overlapping_items = [item for item in report.items if _is_overlapping(spec, item, report, order)]
        own_nodes = [node for item in taken_items for node in _find_own_nodes(report, item)]
        shared_nodes = [node for node in own_nodes if node in specs_by_node]
        if any(
            other is not None and shadows(other, spec)
            for other in {id(item.entry): item.entry for item in overlapping_items}.values()
        ):
            continue  # shadowing is a finding for all hosts, and reported already
        if "overlap" not in accepted_codes and overlapping_items:
            yield _add_entry_name(entry, _build_overlap_finding(entry, overlapping_items, host_name))
        elif "overlap" not in accepted_codes and shared_nodes:
            yield _add_entry_name(
                entry, _build_shared_node_finding(entry, shared_nodes, specs_by_node[shared_nodes[0]], host_name)
            )
        elif "overlap" not in accepted_codes and (pair := _find_same_hardware(taken_items, report, order)) is not None:
            yield _add_entry_name(entry, _build_same_hardware_finding(entry, *pair, host_name))
        elif "never-matches" not in accepted_codes and not taken_items and not overlapping_items and spec.slots is None:
            yield _add_entry_name(entry, _build_no_match_finding(entry, build_match_steps(report, spec), host_name))
        specs_by_node.update(dict.fromkeys(own_nodes, spec))
        if "no-topology" not in accepted_codes and len(list_numa_nodes(report.root)) > 1:
            yield from _find_withheld_topology(entry, spec, report, host_name)


def _is_overlapping(spec: ResourceSpec, item: HostReportItem, report: HostReport, order: Mapping[int, int]) -> bool:
    """Return whether an entry matches a device of an earlier entry. order: position of each entry, by `id` of the
    entry.
    """
    other, host = item.entry, report.hosts_by_source[spec.source].get(item.host.key)
    if other is None or other is spec or host is None:
        return False
    return order[id(other)] < order[id(spec)] and match_entry(spec, report.get_facts(spec, host)) is None


def _find_own_nodes(report: HostReport, item: HostReportItem) -> list[str]:
    """Return the device nodes of a grant that belong to the device itself. Other nodes of a grant can be shared."""
    paths = [node.path for node in item.device.nodes] if item.device else []
    own_paths = report.read_fact(item, "nodes") if paths else ()
    return [node for node in paths if isinstance(own_paths, tuple) and node in own_paths]


def _build_shared_node_finding(
    entry: ConfigEntry, nodes: Sequence[str], other: ResourceSpec, host_name: str
) -> Finding:
    """Return the finding that two host devices have one device node. Two pods can get that node."""
    remainder = f" and {len(nodes) - 1} more" if len(nodes) > 1 else ""
    message = (
        f"{make_printable(nodes[0], None)}{remainder} of {host_name} is also given by {other.name} ({other.origin})"
    )
    return _find_position(entry, "source").make_warning("overlap", message, "exclude it in one of them", mark="key")


def _find_same_hardware(
    items: Sequence[HostReportItem], report: HostReport, order: Mapping[int, int]
) -> tuple[HostReportItem, HostReportItem] | None:
    """Return a device of this entry and a device of an earlier entry that are the same hardware, or None.

    One of them is a PCI function or a USB device, the other belongs to it. Entries with `slots` are left out, because
    they take no device from other entries.
    """
    for item in items:
        for other in report.find_same_hardware(item):
            spec, earlier_spec = item.entry, other.entry
            if spec is None or earlier_spec is None or spec.slots is not None or earlier_spec.slots is not None:
                continue
            if order[id(earlier_spec)] < order[id(spec)]:
                return item, other
    return None


def _build_same_hardware_finding(
    entry: ConfigEntry, item: HostReportItem, other: HostReportItem, host_name: str
) -> Finding:
    """Return the finding that two pods can get the same hardware under two names."""
    names = " and ".join(
        f"{hardware_item.label} {make_printable(hardware_item.host.name, None)}" for hardware_item in (item, other)
    )
    name, origin = (other.entry.name, other.entry.origin) if other.entry else ("", "")
    message = f"{names} of {host_name} are one device, and {name} has the second ({origin})"
    return _find_position(entry, "source").make_warning("overlap", message, "exclude it in one of them", mark="key")


def _build_overlap_finding(entry: ConfigEntry, items: Sequence[HostReportItem], host_name: str) -> Finding:
    earlier_spec = items[0].entry
    name, origin = (earlier_spec.name, earlier_spec.origin) if earlier_spec else ("", "")
    count = f"{format_count(len(items), 'device')} of {host_name} match{'es' * (len(items) == 1)}"
    message = f"{count} an earlier entry too, {name} ({origin}), which takes them"
    return _find_position(entry, "match").make_warning(
        "overlap", message, "exclude them here, or move this entry before the other", mark="key"
    )


def _build_no_match_finding(entry: ConfigEntry, steps: Sequence[MatchStep], host_name: str) -> Finding:
    """Return the finding at the clause that excluded the last device, or at the source if the source has no device."""
    last_mismatch = find_last_mismatch(steps)
    if last_mismatch is None:
        device_count = steps[0].remaining
        message = f"the source has no device on {host_name}: 0 devices"
        if device_count:
            message = (
                f"earlier entries take all {device_count} devices of the source on {host_name}: 0 devices"
                if device_count > 1
                else f"an earlier entry takes the only device of the source on {host_name}: 0 devices"
            )
        write = f"device-agent explain {entry.spec.name if entry.spec else ''} shows the next step"
        return _find_position(entry, "source").make_warning("never-matches", message, write, mark="key")
    item, entry_mismatch = last_mismatch
    section, _, address = entry_mismatch.mismatch.address.partition(".")
    name, facts = make_printable(item.host.name, None), make_printable(entry_mismatch.mismatch.facts_text)
    message = f"the last excluded device on {host_name} is {name}, here {facts}"
    write = f"device-agent explain {entry.spec.name if entry.spec else ''} shows each step"
    return _find_position(entry, section, address).make_warning("never-matches", f"{message}: 0 devices", write)


def _find_withheld_topology(
    entry: ConfigEntry, spec: ResourceSpec, report: HostReport, host_name: str
) -> Iterator[Finding]:
    for name in report.find_resource_names(spec):
        if not spec.is_addition and (withheld := report.withheld_topology.get(name)) is not None:
            message = f"on {host_name} {make_printable(withheld.text, None)}"
            yield _find_position(entry, "topology").make_warning("no-topology", message, TOPOLOGY_HINT, mark="key")


def _add_entry_name(entry: ConfigEntry, finding: Finding) -> Finding:
    """Return a finding with the name of the entry, if the finding is in the file of a class. Many entries may use
    that class.
    """
    if entry.spec is None or finding.file == entry.spec.origin.file:
        return finding
    return replace(finding, message=f"{entry.spec.name}: {finding.message}")


def _find_position(entry: ConfigEntry, section: str, address: str = "") -> FilePosition:
    """Return the file position of a clause or section. The default is the position of the entry."""
    tree = entry.merged_entry.tree
    node = tree.members.get(section)
    if section == "exclude" and isinstance(node, Branch):
        name, _, address = address.partition(".")
        node = node.members.get(name)
    if isinstance(node, Branch) and address in node.members:
        node = node.members[address]
    return node.spot if isinstance(node, Leaf | Branch) else entry.spot


def add(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `check`."""
    parser.add_argument("--strict", action="store_true", help="treat warnings as errors")
    parser.add_argument(
        "--aloud", nargs="*", metavar="NAME", help="print the description of resources, classes and entries (file:line)"
    )


def run(arguments: argparse.Namespace) -> int:
    """Print the findings and the summary. Return the exit code."""
    loaded = load_with_entries(arguments.config)
    configuration = loaded.configuration
    findings = configuration.findings
    descriptions: list[Description] = []
    if arguments.aloud is not None:
        try:
            descriptions = find_descriptions(loaded, arguments.aloud)
        except NoDescriptionError as error:
            nearest_name = f"; nearest: {error.nearest}" if error.nearest else ""
            return fail(
                arguments, f"{error.name}: no resource, entry or class has this name{nearest_name}", NO_SUCH_NAME
            )
    hosts: list[str] = []
    for name, root in arguments.roots.items() if arguments.aloud is None else ():
        host_name = "this host" if root == "/" else os.path.basename(name.rstrip("/"))
        report = scan_host(
            Root(root), configuration.resources, cdi_directories=configuration.settings.paths.cdi, all_sources=False
        )
        findings = (*findings, *find_host_findings(loaded.entries, report, host_name))
        device_count = sum(len(device) for device_list in report.lists.values() for device in device_list)
        hosts.append(f"{format_count(device_count, 'device')} on {host_name}")
    findings = tuple(sort_findings(findings))
    if is_json(arguments):
        json_values = map(build_json, findings) if arguments.aloud is None else map(reading_as_json, descriptions)
        print_json([*json_values], arguments)
    else:
        print_descriptions(descriptions, Terminal.detect(sys.stdout, colour=arguments.color, utc=arguments.utc))
        for finding in findings:
            print(render(finding))
        served = format_count(len(configuration.resources), "resource")
        print(format_check_summary(findings, len(configuration.files), ", ".join((served, *hosts))))
    serious_findings = findings if arguments.strict else [f for f in findings if f.severity is Severity.ERROR]
    return 1 if serious_findings else 0


def print_descriptions(descriptions: Sequence[Description], terminal: Terminal) -> None:
    """Print descriptions, with an empty line after each description."""
    for description in descriptions:
        title, *lines = read(description, terminal.width)
        print(terminal.style(terminal.make_displayable(title), "bold"))
        for line in (*lines, ""):
            print(terminal.make_displayable(line))
