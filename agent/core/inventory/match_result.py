"""Sighting: one host device in one look, judged by every entry that sees it, in file order."""

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
    """One host device in one look: who takes it, who turned it down (in file order) and what that rests on.

    candidate: what the entry that takes it makes of it; None if that puts host devices together, and see
        `Look.candidate`.
    stopped, tied: see `Judged`.
    lent: what entries with `slots` make of it, which take it from nobody.
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
        """See `Judged`."""
        return bool(self.mismatches) and self.mismatches[-1].is_undecided


def match_host_device(
    source_entries: SourceEntries,
    by_source: Mapping[Source, HostDevice],
    reader: Reader,
    partner_index: PartnerIndex,
    inactive_reasons: Mapping[int, str],
) -> MatchResult:
    """Judge what these sources show as one host device. `gates`: why entries have to wait, by their numbers."""
    mismatches: list[Mismatch] = []
    recorder = RecordingHostPaths(reader)
    dependencies: dict[str, HostDevice] = {}
    candidate: Candidate | None = None
    taking_entry: int | None = None
    memberships: dict[int, GroupMembership] = {}
    slot_candidates: list[Candidate] = []
    prefilter = source_entries.prefilter
    next_number = 0  # entries that have turned it down together
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
    """What an entry makes of one host device."""
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
    """A candidate with what it is preferred by."""
    return replace(candidate, affinities=compute_affinities(spec, facts, candidate.numa)) if spec.prefer else candidate
