"""Build the host report: one look at all sources, matched with the configuration."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from agent.cli.host_report.host_report import EntryMismatch, HostReport, HostReportItem
from agent.core.entry.cdi import DIRECTORIES
from agent.core.entry.resource_spec import ResourceSpec, Source
from agent.core.health.evaluation import evaluate_one_look
from agent.core.inventory.candidate import Candidate
from agent.core.inventory.check_run import resolve_one_look
from agent.core.inventory.device import HostDevice
from agent.core.inventory.dirty_set import ALL_DIRTY
from agent.core.inventory.facts import NO_PARTNERS, Facts
from agent.core.inventory.inventory import update_inventory
from agent.core.inventory.listing import Listing
from agent.core.inventory.matching import Mismatch, match_entry
from agent.core.language.glob import escape_glob
from agent.core.language.logic import PLAIN
from agent.core.language.value import Absent, make_sort_key
from agent.core.lists.build_lists import build_lists
from agent.core.lists.list_findings import find_missing_devices, find_withheld_topology
from agent.host.cdi_specs import SpecDirectories
from agent.host.root import Root
from agent.scanners import source_kinds
from agent.scanners.host_reader import HostReader, HostView

_MAX_DEPTH = 4  # levels of directories below /dev: /dev/bus/usb/001/002 is the fourth
_NODES_PER_SOURCE = 100  # nodes in one source
_STANDARD_SOURCES = (Source("pci"), Source("usb"), Source("subsystem", ("usb",)), Source("net"))


def scan_host(
    root: Root,
    specs: Sequence[ResourceSpec],
    classes: Sequence[ResourceSpec] = (),
    extra_sources: Sequence[Source] = (),
    cdi_directories: Sequence[str] = DIRECTORIES,
    *,
    all_sources: bool = True,
) -> HostReport:
    """Look at the host.

    Args:
        root: the host, or a tree in its place.
        specs: the entries, in file order.
        classes: one entry for each device class. They show which classes match a device.
        extra_sources: sources to scan in addition to those of the entries and the standard sources.
        cdi_directories: directories of CDI specs.
        all_sources: whether to scan the standard sources and all nodes below /dev too.
    """
    configured = tuple(dict.fromkeys(spec.source for spec in specs))
    always, nodes = (_STANDARD_SOURCES, _list_node_sources(root)) if all_sources else ((), ())
    scanned_sources = (*configured, *always, *(spec.source for spec in classes), *extra_sources, *nodes)
    entry_sources = dict.fromkeys(source for spec in (*specs, *classes) for source in spec.sources)
    listing = source_kinds.list_devices(root, (*scanned_sources, *entry_sources), None, ALL_DIRTY)
    reader = HostReader(HostView(root, SpecDirectories(cdi_directories)))
    inventory = update_inventory(specs, Listing({source: listing.devices[source] for source in entry_sources}), reader)

    def get_facts(spec: ResourceSpec, host: HostDevice) -> Facts:
        return Facts(spec, host, reader, inventory.partner_index or NO_PARTNERS)

    lists = build_lists(
        inventory, specs, frozenset(), {}, 0.0, candidates=evaluate_one_look(inventory.get_resource_candidates())
    )
    devices_by_key = {
        key: device for device_list in lists.lists.values() for device in device_list.devices for key in device.keys
    }
    unlisted_reasons = {candidate.key: candidate.reason for candidate in lists.unlisted}
    hosts_by_source = {
        source: {host.key: host for host in listing.devices[source]} for source in dict.fromkeys(scanned_sources)
    }
    specs_by_name: dict[str, list[ResourceSpec]] = {}
    for entry in specs:
        specs_by_name.setdefault(entry.name, []).append(entry)
    classes_by_key: dict[str, list[ResourceSpec]] = {}
    for entry in classes:
        for key in hosts_by_source[entry.source]:
            classes_by_key.setdefault(key, []).append(entry)
    items: dict[str, HostReportItem] = {}
    for source, hosts in hosts_by_source.items():
        for key, host in hosts.items():
            match_result, candidate = inventory.match_results.get(key), next(inventory.find_candidates(key), None)
            spec = specs[candidate.entry] if candidate else None
            if key in items or (spec and spec.source != source):
                continue
            check_only = partial(
                _is_only_mismatch,
                specs_by_name=specs_by_name,
                hosts_by_source=hosts_by_source,
                key=key,
                get_facts=get_facts,
            )
            mismatches = (
                tuple(EntryMismatch(mismatch, check_only) for mismatch in match_result.mismatches)
                if match_result
                else ()
            )
            matching_classes = (
                ()
                if spec
                else tuple(_find_matching_classes(classes_by_key.get(key, ()), hosts_by_source, key, get_facts))
            )
            device, reason = (
                (devices_by_key.get(key), unlisted_reasons.get(candidate.device.key, "")) if candidate else (None, "")
            )
            resource = candidate.resource if candidate else ""
            checks = (
                tuple(resolve_one_look(result) for result in candidate.check_results if result.device_key == key)
                if candidate
                else ()
            )
            items[key] = HostReportItem(
                source,
                host,
                spec,
                device,
                mismatches,
                matching_classes,
                _list_other_members(candidate, host),
                reason,
                resource,
                checks,
            )
    skipped_paths = {source: listing.skipped_paths[source] for source in configured}
    totals = {source: len(hosts) for source, hosts in listing.devices.items()}
    return HostReport(
        root,
        tuple(items.values()),
        skipped_paths=skipped_paths,
        totals=totals,
        hosts_by_source=hosts_by_source,
        unlisted=lists.unlisted,
        specs=specs,
        get_facts=get_facts,
        missing_devices=find_missing_devices(specs, inventory, lists),
        lists={name: device_list.devices for name, device_list in lists.lists.items()},
        withheld_topology={
            name: withheld
            for name, device_list in lists.lists.items()
            if (withheld := find_withheld_topology(device_list, inventory)) is not None
        },
    )


def _list_other_members(candidate: Candidate | None, host: HostDevice) -> tuple[str, ...]:
    """Return the names of the other members of the group of a host device."""
    return tuple(other.name for other in candidate.host_devices if other.key != host.key) if candidate else ()


def _find_mismatching_entry(
    specs: Sequence[ResourceSpec], mismatch: Mismatch, hosts_by_source: _HostsBySource, key: str, get_facts: _GetFacts
) -> ResourceSpec:
    """Return the entry of a mismatch. Several entries may have the same resource."""
    searching_specs = [spec for spec in specs if key in hosts_by_source.get(spec.source, {})]
    matching_specs = (
        spec
        for spec in searching_specs[:-1]
        if match_entry(spec, get_facts(spec, hosts_by_source[spec.source][key])) == mismatch
    )
    return next(matching_specs, searching_specs[-1])


def list_dev_directories(root: Root, directory: str = "/dev", depth: int = 1) -> frozenset[str]:
    """Return the directories of /dev that may contain device nodes."""
    subdirectories = root.list_directories(directory) if depth < _MAX_DEPTH else ()
    return frozenset({directory}).union(
        *(list_dev_directories(root, f"{directory}/{name}", depth + 1) for name in subdirectories)
    )


def _list_node_sources(root: Root) -> Iterator[Source]:
    """Yield sources for all nodes below /dev. A source is a key, and the cost of a key grows with its paths."""
    paths = sorted(_list_node_paths(root, "/dev", 1), key=make_sort_key)
    for start in range(0, len(paths), _NODES_PER_SOURCE):
        yield Source("node", tuple(paths[start : start + _NODES_PER_SOURCE]))


def _list_node_paths(root: Root, directory: str, depth: int) -> Iterator[str]:
    """Yield the paths of device nodes below /dev, without links, as globs that match only that path."""
    directories = set(root.list_directories(directory))
    names = root.list_names(directory, ordered=False)
    for name in () if isinstance(names, Absent) else names:
        path = f"{directory}/{name}"
        if name in directories:
            if depth < _MAX_DEPTH:
                yield from _list_node_paths(root, path, depth + 1)
            continue
        entry = root.find_entry(path, within=True)
        if not isinstance(entry, Absent) and entry.node.path == path:
            yield escape_glob(path)


_HostsBySource = Mapping[Source, Mapping[str, HostDevice]]
_GetFacts = Callable[[ResourceSpec, HostDevice], Facts]


def _find_matching_classes(
    classes: Sequence[ResourceSpec], hosts_by_source: _HostsBySource, key: str, get_facts: _GetFacts
) -> Iterator[str]:
    """Yield the classes that match the device with this key. The source of each class shows the device."""
    for spec in classes:
        if match_entry(spec, get_facts(spec, hosts_by_source[spec.source][key])) is None:
            yield spec.class_name or spec.name


def _is_only_mismatch(
    mismatch: Mismatch,
    specs_by_name: Mapping[str, Sequence[ResourceSpec]],
    hosts_by_source: _HostsBySource,
    key: str,
    get_facts: _GetFacts,
) -> bool:
    """Return whether only this clause excludes the device, and at least one other clause line matches."""
    spec = _find_mismatching_entry(specs_by_name[mismatch.resource], mismatch, hosts_by_source, key, get_facts)
    facts = get_facts(spec, hosts_by_source[spec.source][key])
    failing_count = sum(not line.evaluate(facts, PLAIN) for line in spec.match.lines)
    excluding_count = sum(clause.find_failed_line(facts) is None for clause in spec.exclude)
    return failing_count + excluding_count == 1 and len(spec.match.lines) > failing_count
