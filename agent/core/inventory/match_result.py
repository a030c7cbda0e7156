"""Match one host device with all entries that see it, in file order."""

from __future__ import annotations

from collections.abc import Mapping

from agent.core.entry.group import compute_group_keys
from agent.core.entry.resource_spec import ResourceSpec, Source
from agent.core.inventory.affinity import compute_affinities
from agent.core.inventory.candidate import Candidate, make_candidate
from agent.core.inventory.device import HostDevice
from agent.core.inventory.facts import Facts, Reader
from agent.core.inventory.grouping import GroupMembership
from agent.core.inventory.host_paths import RecordingHostPaths
from agent.core.inventory.matching import Mismatch, find_member_name, match_entry
from agent.core.inventory.member_facts import wrap_single_member
from agent.core.inventory.partner_index import PartnerIndex, add_partners
from agent.core.inventory.prefilter import SourceEntries
from agent.core.struct import Struct, field, replace


class MatchResult(Struct):
    """The match result of one host device in one look.

    candidate: the candidate of the entry that takes the device. None if the entry groups devices: see
        `Inventory.get_candidate`.
    mismatches: the mismatches of the other entries, in file order.
    read_paths: the paths that the result depends on.
    taking_entry, memberships: see `MatchOutcome`.
    slot_candidates: the candidates of entries with `slots`. These entries take the device from no other entry.
    """

    devices: tuple[HostDevice, ...]
    candidate: Candidate | None
    mismatches: tuple[Mismatch, ...]
    read_paths: frozenset[str]
    taking_entry: int | None = None
    memberships: Mapping[int, GroupMembership] = field(default_factory=dict)
    slot_candidates: tuple[Candidate, ...] = ()

    @property
    def is_undecided(self) -> bool:
        """See `MatchOutcome`."""
        return bool(self.mismatches) and self.mismatches[-1].is_undecided


def match_host_device(
    source_entries: SourceEntries,
    by_source: Mapping[Source, HostDevice],
    reader: Reader,
    partner_index: PartnerIndex,
    inactive_reasons: Mapping[int, str],
) -> MatchResult:
    """Match a host device with the entries of its sources.

    inactive_reasons: why entries are not active, by number.
    """
    mismatches: list[Mismatch] = []
    recorder = RecordingHostPaths(reader)
    dependencies: dict[str, HostDevice] = {}
    candidate: Candidate | None = None
    taking_entry: int | None = None
    memberships: dict[int, GroupMembership] = {}
    slot_candidates: list[Candidate] = []
    prefilter = source_entries.prefilter
    next_number = 0  # entries before it are decided by the prefilter
    for number, (entry, spec) in enumerate(source_entries.entries):
        includes_unmatched = spec.group is not None and spec.group.includes_unmatched
        if number < next_number or (taking_entry is not None and not includes_unmatched and spec.slots is None):
            continue
        prefilter, mismatch = prefilter.match_entry(number, by_source, reader)
        if mismatch is not None:
            prefilter_mismatches = prefilter.find_mismatches(number)
            mismatches += prefilter_mismatches
            next_number = number + len(prefilter_mismatches)
            continue
        device = by_source[spec.source]
        facts = Facts(spec, device, reader, partner_index)
        if spec.slots is not None:
            mismatch = match_entry(spec, facts)
            if mismatch is None:
                slot_candidates.append(_make_candidate(spec, entry, facts, recorder, inactive_reasons))
            elif taking_entry is None:
                mismatches.append(replace(mismatch, is_undecided=False))
            dependencies.update(facts.list_dependencies())
            continue
        member_name = ""
        if taking_entry is None:
            mismatch = match_entry(spec, facts)
            if mismatch is None and spec.group is not None:
                member_name, _ = find_member_name(spec, spec.group, facts)
            if mismatch is not None:
                mismatches.append(mismatch)
            elif spec.group is None:
                candidate = _make_candidate(spec, entry, facts, recorder, inactive_reasons)
            if mismatch is None or mismatch.is_undecided:
                taking_entry = entry
        if spec.group is not None and (
            includes_unmatched or (taking_entry == entry and not (mismatches and mismatches[-1].is_undecided))
        ):
            memberships[entry] = GroupMembership(device, compute_group_keys(spec.group, facts), member_name)
        dependencies.update(facts.list_dependencies())
    devices = tuple(by_source.values())
    read_paths = recorder.read_paths.union(*map(reader.get_read_paths, (*devices, *dependencies.values())))
    return MatchResult(
        devices, candidate, tuple(mismatches), read_paths, taking_entry, memberships, tuple(slot_candidates)
    )


def _make_candidate(
    spec: ResourceSpec, entry: int, facts: Facts, recorder: RecordingHostPaths, inactive_reasons: Mapping[int, str]
) -> Candidate:
    """Build the candidate of an entry for one host device."""
    candidate = make_candidate(
        spec,
        facts.device,
        wrap_single_member(facts),
        recorder,
        entry=entry,
        inactive_reason=inactive_reasons.get(entry, ""),
    )
    return add_affinity(add_partners(candidate, spec, (facts,)), spec, facts)


def add_affinity(candidate: Candidate, spec: ResourceSpec, facts: Facts) -> Candidate:
    """Return the candidate with its affinities."""
    return replace(candidate, affinities=compute_affinities(spec, facts, candidate.numa)) if spec.prefer else candidate
