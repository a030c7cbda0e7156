"""Looking: which entry takes which host device, and what it offers of it. Pure over a `Reader`.

The order is fixed (rulings 1, 12): per host device, entries in file order; of an entry first `exclude`, then `match`.
The first entry whose clauses hold takes the device, whatever its id, nodes or health say, and keeps it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from agent.core.candidate import Candidate, candidate
from agent.core.clause import Clause, Line, Origin, holds
from agent.core.device import HostDevice, Node
from agent.core.facts import Facts, Reader
from agent.core.resource import ResourceSpec, Source
from agent.core.text import Fact
from agent.core.touched import EVERYTHING, Places, Touched
from agent.core.value import Absent, Value, text_of


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
class Refusal:
    """The first clause of an entry that turned a device down: its address, where it stands, and what was read.

    undecided: it rests on what is still to come; until then no later entry has the device either (rulings 7).
    """

    resource: str
    address: str
    written: str
    here: str
    origin: Origin
    undecided: bool = False


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
    places: Places = field(default_factory=Places, repr=False, compare=False)

    _offers: dict[str, Mapping[str, Candidate]] = field(default_factory=dict, repr=False, compare=False)

    def candidates(self) -> Mapping[str, Mapping[str, Candidate]]:
        """The candidates of each resource, by key of the host device, in no order that means anything.

        Those of a resource are the same object as in the look before if nothing of them was judged again.
        """
        if not self._offers:
            self._offers.update(_renewed({}, {}, self.sightings, self.sightings))
        return self._offers


def look(
    specs: Sequence[ResourceSpec],
    listing: Listing,
    reader: Reader,
    previous: Look | None = None,
    touched: Touched = EVERYTHING,
) -> Look:
    """The machine as it is now. Sightings that no touched path concerns are taken over from `previous`, which is
    given back itself where it has them all.

    That is the same as looking at everything, if `touched` covers what changed on the host and `specs` are those of
    `previous`; with other entries everything has to be looked at.
    """
    if previous is None or touched.everything:
        doubtful = None
        sightings: dict[str, Sighting] = {}
        places = Places()
    else:
        doubtful = previous.places.concerned(touched) | _different(previous.listing, listing)
        if not doubtful and listing == previous.listing:
            return previous
        sightings = {**previous.sightings}
        places = previous.places
        for key in doubtful:
            sightings.pop(key, None)
    seen: dict[str, dict[Source, HostDevice]] = {}
    for source, devices in listing.found.items():
        for device in devices:
            if doubtful is None or device.key in doubtful:
                seen.setdefault(device.key, {})[source] = device
    for key, by_source in seen.items():
        sighting = sightings[key] = _sight(specs, by_source, reader)
        places.add(key, sighting.consulted)
    if previous is None or doubtful is None:
        return Look(listing, sightings, places)
    return Look(listing, sightings, places, _renewed(previous.candidates(), previous.sightings, sightings, doubtful))


def judge(spec: ResourceSpec, fact: Fact) -> Refusal | None:
    """The first clause of the entry that turns down the device of which `fact` tells, or none: it takes it."""
    for clause in spec.exclude:
        unread = _unreadable(clause, fact)
        if unread is not None:
            line, value = unread
            if value.pending:
                return _refusal(spec, line, _shown(value), undecided=True)
            return _refusal(spec, line, f"could not be read ({value.reason}), so it stays excluded")
        if clause.lines and clause.failing(fact) is None:
            first = clause.lines[0]
            return _refusal(spec, first, _shown(fact(first.word)))
    failing = spec.match.failing(fact)
    if failing is None:
        return None
    line, here = failing
    return _refusal(spec, line, _shown(here), undecided=isinstance(here, Absent) and here.pending)


def _renewed(
    offers: Mapping[str, Mapping[str, Candidate]],
    before: Mapping[str, Sighting],
    now: Mapping[str, Sighting],
    doubtful: Iterable[str],
) -> dict[str, Mapping[str, Candidate]]:
    """The candidates of all resources after these keys were judged again."""
    renewed: dict[str, dict[str, Candidate]] = {}
    for key in doubtful:
        for sightings in (before, now):
            sighting = sightings.get(key)
            if sighting is None or (found := sighting.candidate) is None:
                continue
            if found.resource not in renewed:
                renewed[found.resource] = {**offers.get(found.resource, {})}
            if sightings is now:
                renewed[found.resource][key] = found
            else:
                renewed[found.resource].pop(key, None)
    return {name: found for name, found in {**offers, **renewed}.items() if found}


def _different(before: Listing, now: Listing) -> set[str]:
    """The keys of what is in one listing and not, as the same object, in the other."""
    keys: set[str] = set()
    for source in {**before.found, **now.found}:
        old, new = before.found.get(source, ()), now.found.get(source, ())
        if old is not new:
            others = set(map(id, old)) ^ set(map(id, new))
            keys.update(device.key for device in (*old, *new) if id(device) in others)
    return keys


def _sight(specs: Sequence[ResourceSpec], by_source: Mapping[Source, HostDevice], reader: Reader) -> Sighting:
    refusals: list[Refusal] = []
    paths: set[str] = set()
    ends: dict[str, HostDevice] = {}
    taken = None

    def node(path: str) -> Node | Absent:
        found = reader.node(path)
        paths.update((path, found.path) if isinstance(found, Node) else (path,))
        return found

    for spec in specs:
        device = by_source.get(spec.source)
        if device is None:
            continue
        facts = Facts(spec, device, reader)
        refusal = judge(spec, facts)
        if refusal is None:
            taken = candidate(spec, device, facts, node)
        ends.update(facts.ends)
        if refusal is None:
            break
        refusals.append(refusal)
        if refusal.undecided:
            break
    devices = tuple(by_source.values())
    consulted = frozenset(paths).union(*map(reader.consulted, (*devices, *ends.values())))
    return Sighting(devices, taken, tuple(refusals), consulted)


def _unreadable(clause: Clause, fact: Fact) -> tuple[Line, Absent] | None:
    """A line of an exclusion that could not be read, or not yet, while no other line rules it out (rulings G.1)."""
    doubt = None
    for line in clause.lines:
        value = fact(line.word)
        if isinstance(value, Absent) and (value.unread or value.pending):
            doubt = doubt or (line, value)
        elif not holds(line.test, line.kind, value):
            return None
    return doubt


def _refusal(spec: ResourceSpec, line: Line, here: str, *, undecided: bool = False) -> Refusal:
    return Refusal(spec.name, line.address, line.written, here, line.origin, undecided)


def _shown(value: Value | Absent) -> str:
    if isinstance(value, Absent):
        return f"absent ({value.reason})"
    if isinstance(value, tuple):
        return ", ".join(text_of(item) for item in value) or "empty"
    return text_of(value)
