"""Looking: which entry takes which host device, and what it offers of it. Pure over a `Reader`.

The order is fixed: per host device, entries in file order; of an entry first `exclude`, then `match`.
The first entry whose clauses hold takes the device, whatever its id, nodes or health say, and keeps it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

from agent.core.entry.program import Command
from agent.core.entry.resource_spec import ResourceSpec, Source
from agent.core.inventory.affinity import compute_affinities
from agent.core.inventory.candidate import Candidate, make_candidate
from agent.core.inventory.device import HostDevice
from agent.core.inventory.dirty_set import ALL_DIRTY, DirtySet, PathIndex
from agent.core.inventory.facts import NO_PARTNERS, Facts, Reader
from agent.core.inventory.group_candidate import make_group_candidate
from agent.core.inventory.grouping import Groups, build_groups
from agent.core.inventory.host_paths import RecordingHostPaths
from agent.core.inventory.in_pod import MovableDevice, diff_movable_devices, make_in_pod_candidate
from agent.core.inventory.listing import Listing, find_changed_devices
from agent.core.inventory.match_result import MatchResult, add_affinity, match_host_device
from agent.core.inventory.member_facts import MemberFacts
from agent.core.inventory.partner_index import PartnerIndex, add_partners
from agent.core.inventory.preconditions import evaluate_preconditions
from agent.core.inventory.prefilter import SourceEntries, select_source_entries
from agent.core.inventory.prepare_programs import PrepareRequest
from agent.core.language.value import Absent
from agent.core.struct import Struct, field, not_compared, replace

NO_MOVABLE_DEVICES: Mapping[str, MovableDevice] = MappingProxyType({})


@not_compared(
    "path_index",
    "partner_index",
    "source_entries",
    "movable_devices",
    "rejected_keys",
    "read_history",
    "_resource_candidates",
)
class Inventory(Struct):
    """The machine as one look saw it; sightings by key of the host device.

    grouped: candidates of several host devices, by key of each.
    gates: why entries, by their number, are not to offer anything; empty for an open one.
    programs: those that entries, by their number, want to have been run.
    views: of the entries that see the same sources; handed on until everything is looked at again.
    movers: devices that may be in a pod, by key. away: the keys of those that are; refused: of those that are not, for
        their entry turned them down when they were there.
    memory: what those who take looks remember of it for the next one.
    """

    listing: Listing = field(default_factory=Listing)
    match_results: Mapping[str, MatchResult] = field(default_factory=dict)
    path_index: PathIndex = field(default_factory=PathIndex)
    group_candidates: Mapping[str, Candidate] = field(default_factory=dict)
    groups: Groups = field(default_factory=Groups)
    partner_index: PartnerIndex | None = None
    inactive_reasons: Mapping[int, str] = field(default_factory=dict)
    prepare_requests: Mapping[int, tuple[PrepareRequest, ...]] = field(default_factory=dict)
    source_entries: dict[tuple[Source, ...], SourceEntries] = field(default_factory=dict)
    movable_devices: Mapping[str, MovableDevice] = field(default_factory=dict)
    in_pod_keys: frozenset[str] = frozenset()
    rejected_keys: frozenset[str] = frozenset()
    read_history: object = None

    _resource_candidates: dict[tuple[str, str], Mapping[str, Candidate]] = field(default_factory=dict)

    def get_candidate(self, key: str) -> Candidate | None:
        """What is made of a host device, with others or alone; none if that is nothing."""
        if key in self.group_candidates:
            return self.group_candidates[key]
        sighting = self.match_results.get(key)
        return sighting.candidate if sighting else None

    def find_candidates(self, key: str) -> Iterator[Candidate]:
        """Everything that is made of a host device: also what `slots` make of it."""
        if (found := self.get_candidate(key)) is not None:
            yield found
        if (sighting := self.match_results.get(key)) is not None:
            yield from sighting.slot_candidates

    def get_resource_candidates(self) -> Mapping[tuple[str, str], Mapping[str, Candidate]]:
        """The candidates of each resource and name as written, by key of their (first) host device, in no order that
        means anything.

        Those of a resource are the same object as in the look before if nothing of them was judged again.
        """
        if not self._resource_candidates:
            self._resource_candidates.update(_renewed({}, Inventory(), self, self.match_results))
        return self._resource_candidates


def update_inventory(
    specs: Sequence[ResourceSpec],
    listing: Listing,
    reader: Reader,
    previous: Inventory | None = None,
    dirty_set: DirtySet = ALL_DIRTY,
    *,
    program_results: Mapping[Command, str] | None = None,
    movable_devices: Mapping[str, MovableDevice] = NO_MOVABLE_DEVICES,
) -> Inventory:
    """The machine as it is now. Sightings that no touched path concerns are taken over from `previous`, which is
    given back itself where it has them all.

    That is the same as looking at everything, if `touched` covers what changed on the host and `specs` are those of
    `previous`; with other entries everything has to be looked at. `outcomes`: see `unprepared`; where one is another
    than in `previous` the keys of the entries that want it (`gate_key`) are touched.

    `movers` are held by pods, and may be in them: see `away`.
    """
    refused = _refused(movable_devices, previous or Inventory())
    if previous is None or dirty_set.is_full_rescan:
        previous = Inventory()
        doubtful: set[str] | None = None
        sightings: dict[str, MatchResult] = {}
        places = PathIndex()
        partners = PartnerIndex(listing.devices, reader, places, None)
    else:
        doubtful = previous.path_index.find_dirty_keys(dirty_set)
        doubtful |= {device.key for device in find_changed_devices(previous.listing, listing)}
        due = {device.key for source in dirty_set.sources for device in listing.devices.get(source, ())}
        doubtful |= due | dirty_set.keys | diff_movable_devices(previous.movable_devices, movable_devices)
        if not doubtful and listing == previous.listing:
            return previous
        sightings = {**previous.match_results}
        places = previous.path_index
        partners = PartnerIndex(listing.devices, reader, places, previous.partner_index)
        doubtful |= partners.refresh(doubtful, due)
    gates, programs = evaluate_preconditions(
        specs,
        reader,
        places,
        (previous.inactive_reasons, previous.prepare_requests),
        doubtful,
        program_results=program_results,
    )
    if doubtful is not None:
        doubtful |= _behind(gates, previous)
        for key in doubtful:
            sightings.pop(key, None)
    seen: dict[str, dict[Source, HostDevice]] = {}
    for source, devices in listing.devices.items():
        for device in devices:
            if doubtful is None or device.key in doubtful:
                seen.setdefault(device.key, {})[source] = device
    _take_back(previous, seen, doubtful, sightings)
    views = previous.source_entries
    for key, by_source in seen.items():
        sources = tuple(by_source)
        if sources not in views:
            views[sources] = select_source_entries(specs, sources)
        sighting = sightings[key] = match_host_device(views[sources], by_source, reader, partners, gates)
        places.add(key, sighting.read_paths)
    gone = _gone(
        {key: movable_devices[key] for key in movable_devices.keys() - refused},
        doubtful,
        specs,
        reader,
        listing=listing,
        sightings=sightings,
        gates=gates,
        places=places,
    )
    sightings.update(gone)
    now = Inventory(
        listing,
        sightings,
        places,
        partner_index=partners,
        inactive_reasons=gates,
        prepare_requests=programs,
        source_entries=views,
    )
    now = replace(
        now,
        movable_devices=movable_devices,
        in_pod_keys=previous.in_pod_keys.difference(doubtful or ()).union(gone),
        rejected_keys=refused,
    )
    again: set[str] = seen.keys() | gone.keys() if doubtful is None else doubtful
    if any(spec.group for spec in specs):
        now, renewed = _grouped(specs, now, reader, previous, again)
        again = again | renewed
    # Here, in the thread of a look, and not when the lists are made.
    return replace(now, _resource_candidates=_renewed(previous.get_resource_candidates(), previous, now, again))


def _take_back(
    previous: Inventory,
    seen: Mapping[str, Mapping[Source, HostDevice]],
    doubtful: set[str] | None,
    sightings: dict[str, MatchResult],
) -> None:
    """Have those looked at again that were in pods, and in whose places something is again under another key."""
    if doubtful is None or not previous.in_pod_keys:
        return
    filled = {device.location for by_source in seen.values() for device in by_source.values()}
    for key in previous.in_pod_keys:
        if previous.movable_devices[key].device.location in filled:
            doubtful.add(key)
            sightings.pop(key, None)


def _refused(movers: Mapping[str, MovableDevice], before: Inventory) -> frozenset[str]:
    """The keys of those that their entry turned down when they were there: so they stay while they are away."""
    return frozenset(
        key
        for key in movers
        if (before.get_candidate(key) is None if key in before.match_results else key in before.rejected_keys)
    )


def _gone(
    movers: Mapping[str, MovableDevice],
    doubtful: set[str] | None,
    specs: Sequence[ResourceSpec],
    reader: Reader,
    *,
    listing: Listing,
    sightings: Mapping[str, MatchResult],
    gates: Mapping[int, str],
    places: PathIndex,
) -> dict[str, MatchResult]:
    """The devices that are in pods, as they are while they are; of those that are to be looked at."""
    gone: dict[str, MatchResult] = {}
    seats: dict[Source, frozenset[str]] = {}
    for key in movers if doubtful is None else movers.keys() & doubtful:
        mover = movers[key]
        spec, seen = specs[mover.entry], sightings.get(key)
        if spec.source not in seats:
            seats[spec.source] = frozenset(device.location for device in listing.devices.get(spec.source, ()))
        devices = () if seen is None else seen.devices
        there = next((device for device in devices if device.source == spec.source.kind), None)
        taken = seats[spec.source]
        if there is not None and seen is not None and seen.candidate is None and _went(there, reader):
            taken -= {there.location}
            there = None  # it went after it was listed: it was not turned down
        made = make_in_pod_candidate(
            mover, spec, there, reader, taken=taken.__contains__, gate=gates.get(mover.entry, "")
        )
        if made is not None:
            found, facts = made
            found = replace(found, affinities=compute_affinities(spec, facts, found.numa)) if spec.prefer else found
            ends = (found.device, *facts.list_dependencies().values())
            consulted = frozenset().union(*map(reader.get_read_paths, ends), () if seen is None else seen.read_paths)
            gone[key] = MatchResult(devices or (found.device,), found, (), consulted)
            places.add(key, consulted)
    return gone


def _went(device: HostDevice, reader: Reader) -> bool:
    """Whether a device has nothing left of what every one has."""
    names = reader.list_names(device, "./uevent")
    return not isinstance(names, Absent) and not names


def _grouped(
    specs: Sequence[ResourceSpec],
    now: Inventory,
    reader: Reader,
    previous: Inventory,
    doubtful: set[str],
) -> tuple[Inventory, set[str]]:
    """The look with what goes together in it, and the keys of all whose group was looked at again."""
    groupings = {entry: spec.group for entry, spec in enumerate(specs) if spec.group and spec.slots is None}
    gathered, renewed = build_groups(groupings, now.match_results, previous.groups, previous.match_results, doubtful)
    grouped = {**previous.group_candidates}
    for key in renewed:
        grouped.pop(key, None)
    now = replace(now, group_candidates=grouped, groups=gathered)
    fresh = {id(group): group for key in renewed if (group := gathered.groups.get(key)) is not None}
    for group in sorted(fresh.values(), key=lambda group: group.entry):
        spec = specs[group.entry]
        others = replace(spec, cdi=())  # its words are the first one's
        facts = {device.key: Facts(spec, device, reader, now.partner_index or NO_PARTNERS) for device in group.members}
        noted = RecordingHostPaths(reader)

        def make(device: HostDevice, words: MemberFacts) -> Candidate:
            of, gate = spec if device is group.matched_members[0] else others, now.inactive_reasons.get(group.entry, "")  # noqa: B023
            return make_candidate(of, device, words, noted, entry=group.entry, inactive_reason=gate)  # noqa: B023

        def owner(device: HostDevice) -> str:
            other = now.get_candidate(device.key)
            if other is not None:
                return f"is in {other.resource}"
            stopped = now.match_results[device.key].taking_entry
            return f"may be in {specs[stopped].name}" if stopped is not None else "is elsewhere"

        made = add_partners(make_group_candidate(spec, group, facts, make, owner), spec, facts.values())
        made = add_affinity(made, spec, facts[made.device.key])
        consulted = noted.read_paths.union(
            *(now.match_results[key].read_paths for key in facts),
            *(
                reader.get_read_paths(end)
                for of in facts.values()
                for end in (of.device, *of.list_dependencies().values())
            ),
        )
        now.path_index.add(made.device.key, consulted)
        grouped.update(dict.fromkeys(facts, made))
    return now, renewed


def _renewed(
    offers: Mapping[tuple[str, str], Mapping[str, Candidate]],
    before: Inventory,
    now: Inventory,
    doubtful: Iterable[str],
) -> dict[tuple[str, str], Mapping[str, Candidate]]:
    """The candidates of all resources after these keys were judged again."""
    renewed: dict[tuple[str, str], dict[str, Candidate]] = {}
    for look in (before, now):
        for key in doubtful:
            for found in look.find_candidates(key):
                offer = found.resource, found.written_name
                if offer not in renewed:
                    renewed[offer] = {**offers.get(offer, {})}
                if look is now:
                    renewed[offer][found.device.key] = found
                else:
                    renewed[offer].pop(found.device.key, None)
    return {offer: found for offer, found in {**offers, **renewed}.items() if found}


def _behind(gates: Mapping[int, str], previous: Inventory) -> set[str]:
    """The keys of what an entry takes whose gate has moved."""
    moved = {entry for entry, why in gates.items() if previous.inactive_reasons.get(entry) != why}
    if not moved:
        return set()
    gone = {key for key in previous.in_pod_keys if previous.movable_devices[key].entry in moved}
    return gone | {
        key
        for key, sighting in previous.match_results.items()
        if sighting.taking_entry in moved or any(found.entry in moved for found in sighting.slot_candidates)
    }
