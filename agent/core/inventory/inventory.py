"""The inventory: which entry takes which host device, and the candidates. All functions are pure over a `Reader`.

A look lists the host devices of all sources. `update_inventory` matches those again that an event can have changed.
`match_host_device` tries the entries in file order, first `exclude`, then `match`. The first entry that matches takes
the device and keeps it. ID, nodes and health have no influence on this. `build_groups` then joins host devices.
`build_lists` makes the device lists from the candidates.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

from agent.core.entry.program import Command
from agent.core.entry.resource_spec import ResourceSpec, Source
from agent.core.inventory.candidate import Candidate, make_candidate
from agent.core.inventory.device import HostDevice
from agent.core.inventory.dirty_set import ALL_DIRTY, DirtySet, PathIndex
from agent.core.inventory.facts import NO_PARTNERS, Facts, Reader
from agent.core.inventory.group_candidate import make_group_candidate
from agent.core.inventory.grouping import Groups, build_groups
from agent.core.inventory.host_paths import RecordingHostPaths
from agent.core.inventory.in_pod import MovableDevice, diff_movable_devices, make_in_pod_candidate
from agent.core.inventory.listing import Listing, find_changed_devices
from agent.core.inventory.matching import (
    MatchResult,
    SourceEntries,
    add_affinity,
    match_host_device,
    select_source_entries,
)
from agent.core.inventory.member_facts import MemberFacts
from agent.core.inventory.partner_index import PartnerIndex, add_partners
from agent.core.inventory.preconditions import PrepareRequest, evaluate_preconditions
from agent.core.language.value import Absent
from agent.core.struct import Struct, field, ignore_in_comparison, replace

NO_MOVABLE_DEVICES: Mapping[str, MovableDevice] = MappingProxyType({})


@ignore_in_comparison(
    "path_index",
    "partner_index",
    "source_entries",
    "movable_devices",
    "rejected_keys",
    "read_history",
    "_resource_candidates",
)
class Inventory(Struct):
    """The result of one look. Match results and candidates have the key of the host device as key.

    group_candidates: candidates of several host devices, by key of each.
    inactive_reasons: why entries are not active, by number of the entry. Empty for an active entry.
    prepare_requests: the programs that entries want to run, by number of the entry.
    source_entries: the entries that see the same sources. Looks pass them on until a full rescan.
    movable_devices: devices that can be in a pod, by key. in_pod_keys: keys of those that are in a pod.
    rejected_keys: movable devices that did not match their entry when the host last showed them.
    read_history: the facts that the full rescan of a reader compares with the next look.
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
        """Return the candidate of a host device, alone or in a group, or None."""
        if key in self.group_candidates:
            return self.group_candidates[key]
        match_result = self.match_results.get(key)
        return match_result.candidate if match_result else None

    def find_candidates(self, key: str) -> Iterator[Candidate]:
        """Yield all candidates of a host device, those of entries with `slots` included."""
        if (candidate := self.get_candidate(key)) is not None:
            yield candidate
        if (match_result := self.match_results.get(key)) is not None:
            yield from match_result.slot_candidates

    def get_resource_candidates(self) -> Mapping[tuple[str, str], Mapping[str, Candidate]]:
        """Return the candidates by resource and written name, then by key of their first host device.

        The order has no meaning. The candidates of a resource are the same object as in the last look if none was
        computed again.
        """
        if not self._resource_candidates:
            self._resource_candidates.update(_update_resource_candidates({}, Inventory(), self, self.match_results))
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
    """Return the current inventory. Match results without dirty paths stay as in `previous`.

    The result is `previous` itself if nothing is dirty. It equals the result of a full rescan under two conditions:
    `dirty_set` contains all changes of the host, and `specs` are those of `previous`. Other entries need a full rescan.

    program_results: see `find_prepare_wait`. If one changes, the dirty set must contain the keys of its entries
        (`make_precondition_key`).
    movable_devices: devices in use that can be in their pod. See `in_pod`.
    """
    rejected_keys = _find_rejected_keys(movable_devices, previous or Inventory())
    if previous is None or dirty_set.is_full_rescan:
        previous = Inventory()
        dirty_keys: set[str] | None = None
        match_results: dict[str, MatchResult] = {}
        path_index = PathIndex()
        partner_index = PartnerIndex(listing.devices, reader, path_index, None)
    else:
        dirty_keys = previous.path_index.find_dirty_keys(dirty_set)
        dirty_keys |= {device.key for device in find_changed_devices(previous.listing, listing)}
        due_keys = {device.key for source in dirty_set.sources for device in listing.devices.get(source, ())}
        dirty_keys |= due_keys | dirty_set.keys | diff_movable_devices(previous.movable_devices, movable_devices)
        if not dirty_keys and listing == previous.listing:
            return previous
        match_results = {**previous.match_results}
        path_index = previous.path_index
        partner_index = PartnerIndex(listing.devices, reader, path_index, previous.partner_index)
        dirty_keys |= partner_index.refresh(dirty_keys, due_keys)
    inactive_reasons, prepare_requests = evaluate_preconditions(
        specs,
        reader,
        path_index,
        (previous.inactive_reasons, previous.prepare_requests),
        dirty_keys,
        program_results=program_results,
    )
    if dirty_keys is not None:
        dirty_keys |= _find_reactivated_keys(inactive_reasons, previous)
        for key in dirty_keys:
            match_results.pop(key, None)
    host_devices: dict[str, dict[Source, HostDevice]] = {}
    for source, devices in listing.devices.items():
        for device in devices if dirty_keys is None else [device for device in devices if device.key in dirty_keys]:
            host_devices.setdefault(device.key, {})[source] = device
    _mark_returned_devices(previous, host_devices, dirty_keys, match_results)
    source_entries = previous.source_entries
    for key, by_source in host_devices.items():
        sources = tuple(by_source)
        if sources not in source_entries:
            source_entries[sources] = select_source_entries(specs, sources)
        match_result = match_results[key] = match_host_device(
            source_entries[sources], by_source, reader, partner_index, inactive_reasons
        )
        path_index.add(key, match_result.read_paths)
    in_pod_results = _match_in_pod_devices(
        {key: movable_devices[key] for key in movable_devices.keys() - rejected_keys},
        dirty_keys,
        specs,
        reader,
        listing=listing,
        match_results=match_results,
        inactive_reasons=inactive_reasons,
        path_index=path_index,
    )
    match_results.update(in_pod_results)
    inventory = Inventory(
        listing,
        match_results,
        path_index,
        partner_index=partner_index,
        inactive_reasons=inactive_reasons,
        prepare_requests=prepare_requests,
        source_entries=source_entries,
        movable_devices=movable_devices,
        in_pod_keys=previous.in_pod_keys.difference(dirty_keys or ()).union(in_pod_results),
        rejected_keys=rejected_keys,
    )
    changed_keys: set[str] = host_devices.keys() | in_pod_results.keys() if dirty_keys is None else dirty_keys
    if any(spec.group for spec in specs):
        inventory, regrouped_keys = _update_groups(specs, inventory, reader, previous, changed_keys)
        changed_keys = changed_keys | regrouped_keys
    # This runs in the thread of the look, not later in the thread that builds the lists.
    return replace(
        inventory,
        _resource_candidates=_update_resource_candidates(
            previous.get_resource_candidates(), previous, inventory, changed_keys
        ),
    )


def _mark_returned_devices(
    previous: Inventory,
    host_devices: Mapping[str, Mapping[Source, HostDevice]],
    dirty_keys: set[str] | None,
    match_results: dict[str, MatchResult],
) -> None:
    """Mark in-pod devices as dirty whose location has a device again under another key."""
    if dirty_keys is None or not previous.in_pod_keys:
        return
    filled_locations = {device.location for by_source in host_devices.values() for device in by_source.values()}
    for key in previous.in_pod_keys:
        if previous.movable_devices[key].device.location in filled_locations:
            dirty_keys.add(key)
            match_results.pop(key, None)


def _find_rejected_keys(movable_devices: Mapping[str, MovableDevice], previous: Inventory) -> frozenset[str]:
    """Return the keys of the devices that did not match their entry when present. They stay so while absent."""
    return frozenset(
        key
        for key in movable_devices
        if (previous.get_candidate(key) is None if key in previous.match_results else key in previous.rejected_keys)
    )


def _match_in_pod_devices(
    movable_devices: Mapping[str, MovableDevice],
    dirty_keys: set[str] | None,
    specs: Sequence[ResourceSpec],
    reader: Reader,
    *,
    listing: Listing,
    match_results: Mapping[str, MatchResult],
    inactive_reasons: Mapping[int, str],
    path_index: PathIndex,
) -> dict[str, MatchResult]:
    """Return the match results of the dirty devices that are in a pod."""
    in_pod_results: dict[str, MatchResult] = {}
    locations: dict[Source, frozenset[str]] = {}
    for key in movable_devices if dirty_keys is None else movable_devices.keys() & dirty_keys:
        movable_device = movable_devices[key]
        spec, match_result = specs[movable_device.entry], match_results.get(key)
        if spec.source not in locations:
            locations[spec.source] = frozenset(device.location for device in listing.devices.get(spec.source, ()))
        devices = () if match_result is None else match_result.devices
        host_device = next((device for device in devices if device.source == spec.source.kind), None)
        taken_locations = locations[spec.source]
        if (
            host_device is not None
            and match_result is not None
            and match_result.candidate is None
            and _has_disappeared(host_device, reader)
        ):
            taken_locations -= {host_device.location}
            host_device = None  # it disappeared after the listing, so the mismatch is not valid
        candidate_facts = make_in_pod_candidate(
            movable_device,
            spec,
            host_device,
            reader,
            is_location_taken=taken_locations.__contains__,
            inactive_reason=inactive_reasons.get(movable_device.entry, ""),
        )
        if candidate_facts is not None:
            candidate, facts = candidate_facts
            candidate = add_affinity(candidate, spec, facts)
            read_devices = (candidate.device, *facts.list_dependencies().values())
            read_paths = frozenset().union(
                *map(reader.get_read_paths, read_devices), () if match_result is None else match_result.read_paths
            )
            in_pod_results[key] = MatchResult(devices or (candidate.device,), candidate, (), read_paths)
            path_index.add(key, read_paths)
    return in_pod_results


def _has_disappeared(device: HostDevice, reader: Reader) -> bool:
    """Return whether a device has lost `uevent`, which every device has."""
    names = reader.list_names(device, "./uevent")
    return not isinstance(names, Absent) and not names


def _update_groups(
    specs: Sequence[ResourceSpec],
    inventory: Inventory,
    reader: Reader,
    previous: Inventory,
    dirty_keys: set[str],
) -> tuple[Inventory, set[str]]:
    """Return the inventory with its groups, and the keys of all devices whose group was built again."""
    groupings = {entry: spec.group for entry, spec in enumerate(specs) if spec.group and spec.slots is None}
    groups, regrouped_keys = build_groups(
        groupings, inventory.match_results, previous.groups, previous.match_results, dirty_keys
    )
    group_candidates = {**previous.group_candidates}
    for key in regrouped_keys:
        group_candidates.pop(key, None)
    inventory = replace(inventory, group_candidates=group_candidates, groups=groups)
    new_groups = {id(group): group for key in regrouped_keys if (group := groups.groups.get(key)) is not None}
    for group in sorted(new_groups.values(), key=lambda group: group.entry):
        spec = specs[group.entry]
        other_spec = replace(spec, cdi=())  # CDI names use the facts of the ID member
        facts = {
            device.key: Facts(spec, device, reader, inventory.partner_index or NO_PARTNERS) for device in group.members
        }
        recorder = RecordingHostPaths(reader)

        def make_member_candidate(device: HostDevice, facts: MemberFacts) -> Candidate:
            member_spec = spec if device is group.matched_members[0] else other_spec  # noqa: B023
            inactive_reason = inventory.inactive_reasons.get(group.entry, "")  # noqa: B023
            return make_candidate(
                member_spec,
                device,
                facts,
                recorder,  # noqa: B023
                entry=group.entry,  # noqa: B023
                inactive_reason=inactive_reason,
            )

        def describe_owner(device: HostDevice) -> str:
            candidate = inventory.get_candidate(device.key)
            if candidate is not None:
                return f"is in {candidate.resource}"
            taking_entry = inventory.match_results[device.key].taking_entry
            return f"may be in {specs[taking_entry].name}" if taking_entry is not None else "is elsewhere"

        candidate = add_partners(
            make_group_candidate(spec, group, facts, make_member_candidate, describe_owner), spec, facts.values()
        )
        candidate = add_affinity(candidate, spec, facts[candidate.device.key])
        read_paths = recorder.read_paths.union(
            *(inventory.match_results[key].read_paths for key in facts),
            *(
                reader.get_read_paths(dependency)
                for member_facts in facts.values()
                for dependency in (member_facts.device, *member_facts.list_dependencies().values())
            ),
        )
        inventory.path_index.add(candidate.device.key, read_paths)
        group_candidates.update(dict.fromkeys(facts, candidate))
    return inventory, regrouped_keys


def _update_resource_candidates(
    old_candidates: Mapping[tuple[str, str], Mapping[str, Candidate]],
    previous: Inventory,
    current: Inventory,
    dirty_keys: Iterable[str],
) -> dict[tuple[str, str], Mapping[str, Candidate]]:
    """Return the candidates of all resources after these keys were matched again."""
    new_candidates: dict[tuple[str, str], dict[str, Candidate]] = {}
    for inventory in (previous, current):
        for key in dirty_keys:
            for candidate in inventory.find_candidates(key):
                names = candidate.resource, candidate.written_name
                if names not in new_candidates:
                    new_candidates[names] = {**old_candidates.get(names, {})}
                if inventory is current:
                    new_candidates[names][candidate.device.key] = candidate
                else:
                    new_candidates[names].pop(candidate.device.key, None)
    return {names: candidate for names, candidate in {**old_candidates, **new_candidates}.items() if candidate}


def _find_reactivated_keys(inactive_reasons: Mapping[int, str], previous: Inventory) -> set[str]:
    """Return the keys of all devices of entries whose preconditions have changed."""
    changed_entries = {
        entry for entry, reason in inactive_reasons.items() if previous.inactive_reasons.get(entry) != reason
    }
    if not changed_entries:
        return set()
    in_pod_keys = {key for key in previous.in_pod_keys if previous.movable_devices[key].entry in changed_entries}
    return in_pod_keys | {
        key
        for key, match_result in previous.match_results.items()
        if match_result.taking_entry in changed_entries
        or any(candidate.entry in changed_entries for candidate in match_result.slot_candidates)
    }
