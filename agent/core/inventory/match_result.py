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
    seen_by: SourceEntries,
    by_source: Mapping[Source, HostDevice],
    reader: Reader,
    partners: PartnerIndex,
    gates: Mapping[int, str],
) -> MatchResult:
    """Judge what these sources show as one host device. `gates`: why entries have to wait, by their numbers."""
    refusals: list[Mismatch] = []
    noted = RecordingHostPaths(reader)
    ends: dict[str, HostDevice] = {}
    taken: Candidate | None = None
    stopped: int | None = None
    tied: dict[int, GroupMembership] = {}
    lent: list[Candidate] = []
    glance = seen_by.prefilter
    passed = 0  # entries that have turned it down together
    for number, (entry, spec) in enumerate(seen_by.entries):
        claims = spec.group is not None and spec.group.includes_unmatched
        if number < passed or (stopped is not None and not claims and spec.slots is None):
            continue
        glance, refusal = glance.match_entry(number, by_source, reader)
        if refusal is not None:
            run = glance.find_mismatches(number)
            refusals += run
            passed = number + len(run)
            continue
        device = by_source[spec.source]
        facts = Facts(spec, device, reader, partners)
        if spec.slots is not None:
            refusal = match_entry(spec, facts)
            if refusal is None:
                lent.append(_made(spec, entry, facts, noted, gates))
            elif stopped is None:
                refusals.append(replace(refusal, is_undecided=False))
            ends.update(facts.list_dependencies())
            continue
        part = ""
        if stopped is None:
            refusal = match_entry(spec, facts)
            if refusal is None and spec.group is not None:
                part, _ = find_member_name(spec, spec.group, facts)
            if refusal is not None:
                refusals.append(refusal)
            elif spec.group is None:
                taken = _made(spec, entry, facts, noted, gates)
            if refusal is None or refusal.is_undecided:
                stopped = entry
        if spec.group is not None and (claims or (stopped == entry and not (refusals and refusals[-1].is_undecided))):
            tied[entry] = GroupMembership(device, compute_group_keys(spec.group, facts), part)
        ends.update(facts.list_dependencies())
    devices = tuple(by_source.values())
    consulted = noted.read_paths.union(*map(reader.get_read_paths, (*devices, *ends.values())))
    return MatchResult(devices, taken, tuple(refusals), consulted, stopped, tied, tuple(lent))


def _made(
    spec: ResourceSpec, entry: int, facts: Facts, noted: RecordingHostPaths, gates: Mapping[int, str]
) -> Candidate:
    """What an entry makes of one host device."""
    made = make_candidate(
        spec, facts.device, wrap_single_member(facts), noted, entry=entry, inactive_reason=gates.get(entry, "")
    )
    return add_affinity(add_partners(made, spec, (facts,)), spec, facts)


def add_affinity(made: Candidate, spec: ResourceSpec, facts: Facts) -> Candidate:
    """A candidate with what it is preferred by."""
    return replace(made, affinities=compute_affinities(spec, facts, made.numa)) if spec.prefer else made
