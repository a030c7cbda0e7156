"""Taking the inventory: one fresh look at everything that a source can see, judged by the configuration."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from agent.cli.host_report.host_report import EntryMismatch, HostReport, HostReportItem
from agent.core.entry.cdi import DIRECTORIES
from agent.core.entry.resource_spec import ResourceSpec, Source
from agent.core.health.evaluation import evaluate_one_look
from agent.core.inventory.candidate import Candidate
from agent.core.inventory.device import HostDevice
from agent.core.inventory.dirty_set import ALL_DIRTY
from agent.core.inventory.facts import NOBODY, Facts
from agent.core.inventory.inventory import update_inventory
from agent.core.inventory.listing import Listing
from agent.core.inventory.matching import Mismatch, match_entry
from agent.core.inventory.partner_health import resolve_one_look
from agent.core.language.glob import escape_glob
from agent.core.language.logic import PLAIN
from agent.core.language.value import Absent, make_sort_key
from agent.core.lists.build_lists import build_lists
from agent.core.lists.expected_count import find_missing_devices
from agent.core.lists.numa_topology import silence
from agent.host.cdi_specs import SpecDirectories
from agent.host.root import Root
from agent.scanners import source_kinds
from agent.scanners.host_reader import HostReader

_DEEP = 4  # directories below /dev that are looked into: /dev/bus/usb/001/002 is four
_SOME = 100  # nodes to a source
_ALWAYS = (Source("pci"), Source("usb"), Source("subsystem", ("usb",)), Source("net"))


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
    always, nodes = (_ALWAYS, _every_node(root)) if all_sources else ((), ())
    wanted = (*configured, *always, *(spec.source for spec in classes), *extra_sources, *nodes)
    asked = dict.fromkeys(source for spec in (*specs, *classes) for source in spec.sources)
    listing = source_kinds.list_devices(root, (*wanted, *asked), None, ALL_DIRTY)
    reader = HostReader(root, SpecDirectories(cdi_directories))
    now = update_inventory(specs, Listing({source: listing.found[source] for source in asked}), reader)

    def of(spec: ResourceSpec, host: HostDevice) -> Facts:
        return Facts(spec, host, reader, now.partners or NOBODY)

    assembly = build_lists(now, specs, frozenset(), {}, 0.0, candidates=evaluate_one_look(now.candidates()))
    offered = {
        key: device for snapshot in assembly.snapshots.values() for device in snapshot.devices for key in device.keys
    }
    unlisted = {one.key: one.reason for one in assembly.unlisted}
    found = {source: {host.key: host for host in listing.found[source]} for source in dict.fromkeys(wanted)}
    named: dict[str, list[ResourceSpec]] = {}
    for one in specs:
        named.setdefault(one.name, []).append(one)
    suit: dict[str, list[ResourceSpec]] = {}
    for one in classes:
        for key in found[one.source]:
            suit.setdefault(key, []).append(one)
    items: dict[str, HostReportItem] = {}
    for source, hosts in found.items():
        for key, host in hosts.items():
            sighting, candidate = now.sightings.get(key), next(now.find_candidates(key), None)
            spec = specs[candidate.entry] if candidate else None
            if key in items or (spec and spec.source != source):
                continue
            near = partial(_nearly, named=named, found=found, key=key, of=of)
            turned = tuple(EntryMismatch(refusal, near) for refusal in sighting.refusals) if sighting else ()
            fits = () if spec else tuple(_fitting(suit.get(key, ()), found, key, of))
            device, why = (offered.get(key), unlisted.get(candidate.device.key, "")) if candidate else (None, "")
            resource = candidate.resource if candidate else ""
            checks = (
                tuple(resolve_one_look(one) for one in candidate.check_results if one.device_key == key)
                if candidate
                else ()
            )
            items[key] = HostReportItem(
                source, host, spec, device, turned, fits, _others(candidate, host), why, resource, checks
            )
    oddities = {source: listing.oddities[source] for source in configured}
    totals = {source: len(hosts) for source, hosts in listing.found.items()}
    return HostReport(
        root,
        tuple(items.values()),
        skipped_paths=oddities,
        totals=totals,
        found=found,
        unlisted=assembly.unlisted,
        specs=specs,
        get_facts=of,
        missing_devices=find_missing_devices(specs, now, assembly),
        lists={name: snapshot.devices for name, snapshot in assembly.snapshots.items()},
        withheld_topology={
            name: silent
            for name, snapshot in assembly.snapshots.items()
            if (silent := silence(snapshot, now)) is not None
        },
    )


def _others(candidate: Candidate | None, host: HostDevice) -> tuple[str, ...]:
    """The names of those that are one device with a host device."""
    return tuple(other.name for other in candidate.hosts if other.key != host.key) if candidate else ()


def _by(named: Sequence[ResourceSpec], refusal: Mismatch, found: _Found, key: str, of: _FactsOf) -> ResourceSpec:
    """The entry that a refusal is of: several may be of one resource."""
    looking = [spec for spec in named if key in found.get(spec.source, {})]
    judged = (spec for spec in looking[:-1] if match_entry(spec, of(spec, found[spec.source][key])) == refusal)
    return next(judged, looking[-1])


def list_dev_directories(root: Root, directory: str = "/dev", depth: int = 1) -> frozenset[str]:
    """The directories of /dev where nodes are looked for."""
    deeper = root.list_directories(directory) if depth < _DEEP else ()
    return frozenset({directory}).union(
        *(list_dev_directories(root, f"{directory}/{name}", depth + 1) for name in deeper)
    )


def _every_node(root: Root) -> Iterator[Source]:
    """All nodes below /dev. Many sources of some: a source is a key, which costs as much as it names."""
    paths = sorted(_nodes(root, "/dev", 1), key=make_sort_key)
    for first in range(0, len(paths), _SOME):
        yield Source("node", tuple(paths[first : first + _SOME]))


def _nodes(root: Root, directory: str, depth: int) -> Iterator[str]:
    """The paths below /dev that may be nodes, links left out, as globs that fit only them."""
    below = set(root.list_directories(directory))
    names = root.list_names(directory, ordered=False)
    for name in () if isinstance(names, Absent) else names:
        path = f"{directory}/{name}"
        if name in below:
            if depth < _DEEP:
                yield from _nodes(root, path, depth + 1)
            continue
        entry = root.find_entry(path, within=True)
        if not isinstance(entry, Absent) and entry.node.path == path:
            yield escape_glob(path)


_Found = Mapping[Source, Mapping[str, HostDevice]]
_FactsOf = Callable[[ResourceSpec, HostDevice], Facts]


def _fitting(classes: Sequence[ResourceSpec], found: _Found, key: str, of: _FactsOf) -> Iterator[str]:
    """The classes that would take what has that key, of those whose source shows it."""
    for spec in classes:
        if match_entry(spec, of(spec, found[spec.source][key])) is None:
            yield spec.class_name or spec.name


def _nearly(
    refusal: Mismatch, named: Mapping[str, Sequence[ResourceSpec]], found: _Found, key: str, of: _FactsOf
) -> bool:
    """Whether one clause alone stands between an entry and a device, and at least one other speaks for it."""
    spec = _by(named[refusal.resource], refusal, found, key, of)
    facts = of(spec, found[spec.source][key])
    failing = sum(not line.evaluate(facts, PLAIN) for line in spec.match.lines)
    excluding = sum(clause.find_failed_line(facts) is None for clause in spec.exclude)
    return failing + excluding == 1 and len(spec.match.lines) > failing
