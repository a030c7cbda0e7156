"""Taking the inventory: one fresh look at everything that a source can see, judged by the configuration."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

from agent.core.entry.cdi import DIRECTORIES
from agent.core.entry.checked import Checked
from agent.core.entry.resource import ResourceSpec, Source
from agent.core.health.conclude import as_it_is
from agent.core.inventory.candidate import Candidate
from agent.core.inventory.device import Device, HostDevice
from agent.core.inventory.facts import NOBODY, Facts
from agent.core.inventory.hanging import at_once
from agent.core.inventory.judge import Refusal, judge
from agent.core.inventory.listing import Listing, Oddity
from agent.core.inventory.look import look
from agent.core.inventory.touched import EVERYTHING
from agent.core.language.logic import PLAIN
from agent.core.language.pattern import literal
from agent.core.language.value import Absent, Value, natural
from agent.core.lists.assemble import assemble
from agent.core.lists.expect import short
from agent.core.lists.join import Unlisted
from agent.core.lists.topology import Silence, silence
from agent.host.cdi import SpecDirectories
from agent.host.root import Root
from agent.scanners import catalog
from agent.scanners.reading import HostReader

_DEEP = 4  # directories below /dev that are looked into: /dev/bus/usb/001/002 is four
_SOME = 100  # nodes to a source
_CARRIERS = {"usb": "usb.name", "pci": "pci.address"}  # by which word the devices on each say which it is
_NOTHING = ("", "")
_ALWAYS = (Source("pci"), Source("usb"), Source("subsystem", ("usb",)), Source("net"))


class TurnedDown:
    """An entry that does not take a device: its first clause against it."""

    def __init__(self, refusal: Refusal, nearly: Callable[[Refusal], bool]) -> None:
        self.refusal = refusal
        self._nearly = nearly

    @cached_property
    def nearly(self) -> bool:
        """Whether that clause is the only one; asked of a few, out of all entries times all devices."""
        return self._nearly(self.refusal)


@dataclass(frozen=True, slots=True)
class Item:
    """One host device. `device` is what the entry `taken_by` offers of it, if it does.

    resource: the name under which it is offered, or would be. checks: what each check of the entry says of it.
    fits: device classes that would take it, by name; only of what no entry takes.
    others: the host devices that are one device with it, by name. waits: why that device is not listed.
    """

    source: Source
    host: HostDevice
    taken_by: ResourceSpec | None = None
    device: Device | None = None
    turned_down: tuple[TurnedDown, ...] = ()
    fits: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    waits: str = ""
    resource: str = ""
    checks: tuple[Checked, ...] = ()

    @property
    def label(self) -> str:
        """The source as it stands before the name: `pci`, `dev`, or the subsystem."""
        return {"node": "dev", "subsystem": self.source.arguments[0] if self.source.arguments else ""}.get(
            self.source.kind, self.source.kind
        )


class Inventory:
    """Everything seen, in order: as the entries name their sources, then PCI, USB, net, the nodes below /dev.

    oddities: what a configured source came across and did not take for a device.
    totals: how many host devices a source shows. unlisted: what is taken and not in its resource's list, and why.
    specs: the entries that judged them, in file order. facts: what one of them knows of a host device.
    missing: which entries have fewer devices than they expect, and how many there are.
    lists: what each resource has listed, by its name. silences: of which no NUMA node is told, though some have one.
    """

    def __init__(
        self,
        root: Root,
        items: tuple[Item, ...],
        *,
        oddities: Mapping[Source, Sequence[Oddity]],
        totals: Mapping[Source, int],
        unlisted: Sequence[Unlisted],
        specs: Sequence[ResourceSpec],
        facts: Callable[[ResourceSpec, HostDevice], Facts],
        missing: Mapping[str, str],
        lists: Mapping[str, Sequence[Device]],
        silences: Mapping[str, Silence],
    ) -> None:
        self.items = items
        self.oddities = oddities
        self.totals = totals
        self.unlisted = unlisted
        self.missing = missing
        self.lists = lists
        self.silences = silences
        self.root = root
        self.specs = tuple(specs)
        self.facts = facts
        self._reader = HostReader(root)

    @cached_property
    def fallen(self) -> Mapping[str, Mapping[str, Sequence[tuple[Item, TurnedDown]]]]:
        """What each resource's entries turned down, by its name and by the address of the clause."""
        found: dict[str, dict[str, list[tuple[Item, TurnedDown]]]] = {}
        for item in self.items:
            for turned in item.turned_down:
                by = found.setdefault(turned.refusal.resource, {})
                by.setdefault(turned.refusal.address, []).append((item, turned))
        return found

    def same_thing(self, item: Item) -> Sequence[Item]:
        """What is taken and is the same thing, seen from another source: a PCI function or a USB device, and what it
        carries itself (a network interface, an RDMA device, a terminal).
        """
        faces = self._faces.get(self._carrier(item), ())
        return [other for other in faces if (other.label in _CARRIERS) != (item.label in _CARRIERS)]

    @cached_property
    def _faces(self) -> Mapping[tuple[str, str], Sequence[Item]]:
        """What is taken, by the PCI function or the USB device that it is of."""
        found: dict[tuple[str, str], list[Item]] = {}
        for item in self.items:
            if item.taken_by is not None and (carrier := self._carrier(item)) != _NOTHING:
                found.setdefault(carrier, []).append(item)
        return found

    def _carrier(self, item: Item) -> tuple[str, str]:
        """The USB device or, of what is of none, the PCI function that an item is or is of."""
        for kind, word in _CARRIERS.items():
            if item.label == kind:
                return kind, item.host.name
            if not isinstance(name := self.fact(item, word), Absent):
                return kind, str(name)
        return _NOTHING

    def fact(self, item: Item, word: str) -> Value | Absent:
        """What a word says of an item."""
        return self._reader.fact(item.host, word)

    def listed(self, spec: ResourceSpec) -> tuple[Device, ...]:
        """What an entry has listed, each once however many host devices it is; of slots all that its resource has."""
        taken = [item for item in self.items if item.taken_by is spec]
        if spec.slots is None:
            return tuple(dict.fromkeys(item.device for item in taken if item.device))
        names = dict.fromkeys((spec.name, *(item.resource for item in taken)))
        return tuple(device for name in names for device in self.lists.get(name, ()))

    def resources(self, spec: ResourceSpec) -> tuple[str, ...]:
        """The names under which an entry's devices are listed."""
        return tuple(dict.fromkeys(item.resource for item in self.items if item.taken_by is spec and item.resource))

    def count(self, label: str) -> int:
        """How many items a source has, by label; interfaces of USB devices are parts of these."""
        return sum(item.label == label and not (label == "usb" and ":" in item.host.name) for item in self.items)


def take(
    root: Root,
    specs: Sequence[ResourceSpec],
    classes: Sequence[ResourceSpec] = (),
    also: Sequence[Source] = (),
    cdi: Sequence[str] = DIRECTORIES,
    *,
    unasked: bool = True,
) -> Inventory:
    """Look at the host.

    Args:
        root: the host, or a tree in its place.
        specs: the entries, in file order.
        classes: entries that nobody made, one for each device class, to say which would fit.
        also: sources to look at besides those of the entries and those always looked at.
        cdi: directories of CDI specs.
        unasked: whether what none of these asks for is in it, too.
    """
    configured = tuple(dict.fromkeys(spec.source for spec in specs))
    always, nodes = (_ALWAYS, _every_node(root)) if unasked else ((), ())
    wanted = (*configured, *always, *(spec.source for spec in classes), *also, *nodes)
    asked = dict.fromkeys(source for spec in (*specs, *classes) for source in spec.sources)
    listing = catalog.listing(root, (*wanted, *asked), None, EVERYTHING)
    reader = HostReader(root, SpecDirectories(cdi))
    now = look(specs, Listing({source: listing.found[source] for source in asked}), reader)

    def of(spec: ResourceSpec, host: HostDevice) -> Facts:
        return Facts(spec, host, reader, now.partners or NOBODY)

    assembly = assemble(now, specs, frozenset(), {}, 0.0, candidates=as_it_is(now.candidates()))
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
    items: dict[str, Item] = {}
    for source, hosts in found.items():
        for key, host in hosts.items():
            sighting, candidate = now.sightings.get(key), next(now.offers(key), None)
            spec = specs[candidate.entry] if candidate else None
            if key in items or (spec and spec.source != source):
                continue
            near = partial(_nearly, named=named, found=found, key=key, of=of)
            turned = tuple(TurnedDown(refusal, near) for refusal in sighting.refusals) if sighting else ()
            fits = () if spec else tuple(_fitting(suit.get(key, ()), found, key, of))
            device, why = (offered.get(key), unlisted.get(candidate.device.key, "")) if candidate else (None, "")
            resource = candidate.resource if candidate else ""
            checks = tuple(at_once(one) for one in candidate.checked if one.key == key) if candidate else ()
            items[key] = Item(source, host, spec, device, turned, fits, _others(candidate, host), why, resource, checks)
    oddities = {source: listing.oddities[source] for source in configured}
    totals = {source: len(hosts) for source, hosts in listing.found.items()}
    return Inventory(
        root,
        tuple(items.values()),
        oddities=oddities,
        totals=totals,
        unlisted=assembly.unlisted,
        specs=specs,
        facts=of,
        missing=short(specs, now, assembly),
        lists={name: snapshot.devices for name, snapshot in assembly.snapshots.items()},
        silences={
            name: silent
            for name, snapshot in assembly.snapshots.items()
            if (silent := silence(snapshot, now)) is not None
        },
    )


def _others(candidate: Candidate | None, host: HostDevice) -> tuple[str, ...]:
    """The names of those that are one device with a host device."""
    return tuple(other.name for other in candidate.hosts if other.key != host.key) if candidate else ()


def _by(named: Sequence[ResourceSpec], refusal: Refusal, found: _Found, key: str, of: _FactsOf) -> ResourceSpec:
    """The entry that a refusal is of: several may be of one resource."""
    looking = [spec for spec in named if key in found.get(spec.source, {})]
    judged = (spec for spec in looking[:-1] if judge(spec, of(spec, found[spec.source][key])) == refusal)
    return next(judged, looking[-1])


def below_dev(root: Root, directory: str = "/dev", depth: int = 1) -> frozenset[str]:
    """The directories of /dev where nodes are looked for."""
    deeper = root.directories(directory) if depth < _DEEP else ()
    return frozenset({directory}).union(*(below_dev(root, f"{directory}/{name}", depth + 1) for name in deeper))


def _every_node(root: Root) -> Iterator[Source]:
    """All nodes below /dev. Many sources of some: a source is a key, which costs as much as it names."""
    paths = sorted(_nodes(root, "/dev", 1), key=natural)
    for first in range(0, len(paths), _SOME):
        yield Source("node", tuple(paths[first : first + _SOME]))


def _nodes(root: Root, directory: str, depth: int) -> Iterator[str]:
    """The paths below /dev that may be nodes, links left out, as globs that fit only them."""
    below = set(root.directories(directory))
    names = root.names(directory, ordered=False)
    for name in () if isinstance(names, Absent) else names:
        path = f"{directory}/{name}"
        if name in below:
            if depth < _DEEP:
                yield from _nodes(root, path, depth + 1)
            continue
        entry = root.entry(path, within=True)
        if not isinstance(entry, Absent) and entry.node.path == path:
            yield literal(path)


_Found = Mapping[Source, Mapping[str, HostDevice]]
_FactsOf = Callable[[ResourceSpec, HostDevice], Facts]


def _fitting(classes: Sequence[ResourceSpec], found: _Found, key: str, of: _FactsOf) -> Iterator[str]:
    """The classes that would take what has that key, of those whose source shows it."""
    for spec in classes:
        if judge(spec, of(spec, found[spec.source][key])) is None:
            yield spec.class_name or spec.name


def _nearly(
    refusal: Refusal, named: Mapping[str, Sequence[ResourceSpec]], found: _Found, key: str, of: _FactsOf
) -> bool:
    """Whether one clause alone stands between an entry and a device, and at least one other speaks for it."""
    spec = _by(named[refusal.resource], refusal, found, key, of)
    facts = of(spec, found[spec.source][key])
    failing = sum(not line.verdict(facts, PLAIN) for line in spec.match.lines)
    excluding = sum(clause.failing(facts) is None for clause in spec.exclude)
    return failing + excluding == 1 and len(spec.match.lines) > failing
