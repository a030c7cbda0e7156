"""Looking: which entry takes which host device, and what it offers of it. Pure over a `Reader`.

The order is fixed (rulings 1, 12): per host device, entries in file order; of an entry first `exclude`, then `match`.
The first entry whose clauses hold takes the device, whatever its id, nodes or health say, and keeps it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from agent.core.clause import Clause, Line, Origin
from agent.core.device import HostDevice, Node
from agent.core.resource import NodeGive, ResourceSpec, Source
from agent.core.text import clean_id
from agent.core.value import Absent, Value, natural, text_of


class Reader(Protocol):
    """Facts of host devices, each read at most once in a look. No call raises for what the host lacks."""

    def fact(self, device: HostDevice, word: str) -> Value | Absent:
        """What a word or path says of a device."""

    def node(self, path: str) -> Node | Absent:
        """The device node that a path leads to, links followed; absent with the reason if it is none."""

    def consulted(self, device: HostDevice) -> frozenset[str]:
        """The directories and nodes whose content this device's facts came from, for `Touched`."""


@dataclass(frozen=True, slots=True)
class Listing:
    """What is on the host, per source; and what looked like a device but is none, or could not be read."""

    found: Mapping[Source, tuple[HostDevice, ...]] = field(default_factory=dict)
    oddities: Mapping[Source, tuple[Oddity, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Oddity:
    """Something a source came across and did not take for a host device: a path, and why."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class Touched:
    """What an event may have changed; `everything` is the sweep.

    paths: canonical, below /sys/devices or /dev, without the root prefix.
    subsystems: classes and buses of the kernel that may have gained or lost a device.
    """

    paths: frozenset[str] = frozenset()
    subsystems: frozenset[str] = frozenset()
    everything: bool = False

    def __or__(self, other: Touched) -> Touched:
        """Both together."""
        return Touched(
            self.paths | other.paths, self.subsystems | other.subsystems, self.everything or other.everything
        )

    def __bool__(self) -> bool:
        """Whether anything is touched at all."""
        return self.everything or bool(self.paths) or bool(self.subsystems)

    def concerns(self, places: Iterable[str]) -> bool:
        """Whether one of the places is a touched path, lies above one or below one."""
        if self.everything:
            return True
        return any(
            place == path or place.startswith(f"{path}/") or path.startswith(f"{place}/")
            for place in places
            for path in self.paths
        )


EVERYTHING = Touched(everything=True)


@dataclass(frozen=True, slots=True)
class Refusal:
    """The first clause of an entry that turned a device down: its address, where it stands, and what was read."""

    resource: str
    address: str
    written: str
    here: str
    origin: Origin


@dataclass(frozen=True, slots=True)
class Candidate:
    """A host device that an entry takes, with what the resource's list needs of it.

    ids: alternatives whose words are there, cleaned, best first; `unnamed` says why there is none.
    fault: why it cannot be handed out now (a required node is missing); empty if it can.
    """

    resource: str
    device: HostDevice
    ids: tuple[str, ...]
    unnamed: str
    numa: tuple[int, ...]
    nodes: tuple[Node, ...]
    fault: str


@dataclass(frozen=True, slots=True)
class Sighting:
    """One host device in one look: who takes it, who turned it down (in file order) and what that rests on."""

    devices: tuple[HostDevice, ...]
    candidate: Candidate | None
    refusals: tuple[Refusal, ...]
    consulted: frozenset[str]


@dataclass(frozen=True, slots=True)
class Look:
    """The machine as one look saw it; sightings by key of the host device."""

    listing: Listing = field(default_factory=Listing)
    sightings: Mapping[str, Sighting] = field(default_factory=dict)

    def candidates(self) -> Mapping[str, tuple[Candidate, ...]]:
        """The candidates of each resource, in natural order of place."""
        by_resource: dict[str, list[Candidate]] = {}
        for sighting in self.sightings.values():
            if sighting.candidate:
                by_resource.setdefault(sighting.candidate.resource, []).append(sighting.candidate)
        return {name: tuple(sorted(found, key=_by_place)) for name, found in by_resource.items()}


def look(
    specs: Sequence[ResourceSpec],
    listing: Listing,
    reader: Reader,
    previous: Look | None = None,
    touched: Touched = EVERYTHING,
) -> Look:
    """The machine as it is now. Sightings that no touched path concerns are taken over from `previous`."""
    seen: dict[str, dict[Source, HostDevice]] = {}
    for source, devices in listing.found.items():
        for device in devices:
            seen.setdefault(device.key, {})[source] = device
    sightings: dict[str, Sighting] = {}
    for key, by_source in seen.items():
        old = previous.sightings.get(key) if previous and not touched.everything else None
        devices = tuple(by_source.values())
        if old is not None and old.devices == devices and not touched.concerns(old.consulted):
            sightings[key] = old
        else:
            sightings[key] = _sight(specs, by_source, reader)
    return Look(listing, sightings)


def judge(spec: ResourceSpec, device: HostDevice, reader: Reader) -> Refusal | None:
    """The first clause of the entry that turns the device down, or none: it takes it."""

    def fact(word: str) -> Value | Absent:
        return reader.fact(device, word)

    for clause in spec.exclude:
        unread = _unreadable(clause, fact)
        if unread is not None:
            line, value = unread
            return _refusal(spec, line, f"could not be read ({value.reason}), so it stays excluded")
        if clause.failing(fact) is None:
            first = clause.lines[0]
            return _refusal(spec, first, _shown(fact(first.word)))
    failing = spec.match.failing(fact)
    return _refusal(spec, failing[0], _shown(failing[1])) if failing else None


def _sight(specs: Sequence[ResourceSpec], by_source: Mapping[Source, HostDevice], reader: Reader) -> Sighting:
    refusals: list[Refusal] = []
    candidate = None
    asked: frozenset[str] = frozenset()
    for spec in specs:
        device = by_source.get(spec.source)
        if device is None:
            continue
        refusal = judge(spec, device, reader)
        if refusal is None:
            candidate, asked = _candidate(spec, device, reader)
            break
        refusals.append(refusal)
    devices = tuple(by_source.values())
    consulted = asked.union(*(reader.consulted(device) for device in devices))
    return Sighting(devices, candidate, tuple(refusals), consulted)


def _candidate(spec: ResourceSpec, device: HostDevice, reader: Reader) -> tuple[Candidate, frozenset[str]]:
    """The candidate, and the paths of nodes that were asked for: also one that is missing now may come."""

    def fact(word: str) -> Value | Absent:
        return reader.fact(device, word)

    ids: list[str] = []
    unnamed = ""
    for text in spec.id:
        written = text.write(fact)
        if isinstance(written, Absent):
            unnamed = unnamed or written.reason
        elif written:
            ids.append(clean_id(written, spec.suffix_length))
        else:
            unnamed = unnamed or f"{text.source} is empty"
    numa = reader.fact(device, "numa")
    nodes, fault, asked = _nodes(spec.nodes, device, reader)
    candidate = Candidate(
        resource=spec.name,
        device=device,
        ids=tuple(dict.fromkeys(ids)),
        unnamed="" if ids else unnamed,
        numa=(numa,) if isinstance(numa, int) else (),
        nodes=nodes,
        fault=fault,
    )
    return candidate, asked


def _nodes(
    gives: Sequence[NodeGive], device: HostDevice, reader: Reader
) -> tuple[tuple[Node, ...], str, frozenset[str]]:
    found: dict[str, Node] = {}
    asked: set[str] = set()
    fault = ""
    for give in gives:
        paths = give.path.write_all(lambda word: reader.fact(device, word))
        if isinstance(paths, Absent):
            fault = fault or ("" if give.optional else f"node {give.name}: {paths.reason}")
            continue
        asked.update(paths)
        for path in paths:
            node = reader.node(path)
            if isinstance(node, Node):
                found[node.path] = node
            elif not give.optional:
                fault = fault or f"{path}: {node.reason}"
    return tuple(found.values()), fault, frozenset(asked | found.keys())


def _unreadable(clause: Clause, fact: Callable[[str], Value | Absent]) -> tuple[Line, Absent] | None:
    """A line of an exclusion that could not be read while no other line rules the exclusion out (rulings G.1)."""
    doubt = None
    for line in clause.lines:
        value = fact(line.word)
        if isinstance(value, Absent) and value.unread:
            doubt = doubt or (line, value)
        elif Clause("", (line,), line.origin).failing(fact):
            return None
    return doubt


def _refusal(spec: ResourceSpec, line: Line, here: str) -> Refusal:
    return Refusal(spec.name, line.address, line.written, here, line.origin)


def _shown(value: Value | Absent) -> str:
    if isinstance(value, Absent):
        return f"absent ({value.reason})"
    if isinstance(value, tuple):
        return ", ".join(text_of(item) for item in value) or "empty"
    return text_of(value)


def _by_place(candidate: Candidate) -> tuple[tuple[tuple[int, int, str], ...], str]:
    return natural(candidate.device.place), candidate.device.key
