"""Match host devices with entries: in file order, for each entry first `exclude`, then `match`, then `group.parts`.

Nearly every entry excludes nearly every device by vendor, driver or another fact that many devices share. So a
prefilter decides once for all devices with the same values of a few words.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from itertools import takewhile
from typing import NamedTuple, TypeAlias

from agent.core.entry.group import Grouping, compute_group_keys
from agent.core.entry.resource_spec import ResourceSpec, Source
from agent.core.inventory.affinity import compute_affinities
from agent.core.inventory.candidate import Candidate, make_candidate
from agent.core.inventory.device import HostDevice
from agent.core.inventory.facts import Facts, Reader
from agent.core.inventory.grouping import GroupMembership
from agent.core.inventory.host_paths import RecordingHostPaths
from agent.core.inventory.member_facts import wrap_single_member
from agent.core.inventory.partner_index import PartnerIndex, add_partners
from agent.core.language.clause import Clause, ClauseLine, FailedLine, Origin, format_fact
from agent.core.language.logic import CAREFUL, PLAIN, Knowledge
from agent.core.language.value import Absent, Value
from agent.core.struct import Struct, field, replace


class Mismatch(Struct):
    """The first clause line that excludes a device from an entry: address, source text, and facts.

    is_undecided: the line depends on a pending fact. Until the fact is known, no later entry gets the device.
    """

    resource: str
    address: str
    source_text: str
    facts_text: str
    origin: Origin
    is_undecided: bool = False


def match_entry(spec: ResourceSpec, facts: Knowledge) -> Mismatch | None:
    """Return the first mismatch of an entry for the device with these facts, or None if the entry takes the device."""
    for clause in spec.exclude:
        if not clause.lines:
            continue
        failed = clause.find_failed_line(facts, CAREFUL)
        if failed is None:
            first_line = clause.lines[0]
            return _make_mismatch(spec, FailedLine(first_line, first_line.format_facts(facts, CAREFUL)))
        if failed.undecided_fact is None:
            continue
        if failed.undecided_fact.pending:
            return _make_mismatch(spec, failed)
        return _make_mismatch(
            spec,
            FailedLine(failed.statement, f"could not be read ({failed.undecided_fact.reason}), so it stays excluded"),
        )
    failed = spec.match.find_failed_line(facts)
    if failed is not None:
        return _make_mismatch(spec, failed)
    return None if spec.group is None else find_member_name(spec, spec.group, facts)[1]


def find_member_name(spec: ResourceSpec, group: Grouping, facts: Knowledge) -> tuple[str, Mismatch | None]:
    """Return the name in `group.parts` of a device, and the mismatch if no name matches.

    The name is empty if the entry has no parts. While a group key is pending, the match is undecided.
    """
    for group_word in group.words:
        value = facts(group_word.word)
        if isinstance(value, Absent) and value.pending:
            return "", Mismatch(
                spec.name, "group.by", group_word.word, format_fact(value), spec.origin, is_undecided=True
            )
    first_mismatch: Mismatch | None = None
    for name, clause in group.member_clauses.items():
        failed = clause.find_failed_line(facts)
        if failed is None:
            return name, None
        mismatch = _make_mismatch(spec, failed)
        if mismatch.is_undecided:
            return "", mismatch
        first_mismatch = first_mismatch or mismatch
    return "", first_mismatch


def make_mismatch(spec: ResourceSpec, line: ClauseLine, value: Value | Absent) -> Mismatch:
    """Build the mismatch for a line that needs only the value of its word."""
    return _make_mismatch(spec, FailedLine(line, format_fact(value)))


def _make_mismatch(spec: ResourceSpec, failed: FailedLine) -> Mismatch:
    line = failed.statement
    return Mismatch(
        spec.name,
        line.address,
        line.source_text,
        failed.facts_text,
        line.origin,
        failed.undecided_fact is not None,
    )


class PrefilterStep(Struct):
    """A clause line of an entry that one value decides, if all lines before let the device pass.

    is_exclude: the line belongs to `exclude`. next_step: the next line, or None if one value cannot decide it.
    """

    spec: ResourceSpec
    line: ClauseLine
    is_exclude: bool
    next_step: PrefilterStep | None

    def evaluate(self, value: Value | Absent) -> PrefilterState:
        """Return the state of the entry for a value of the word."""
        line_verdict = self.line.evaluate_value(value, CAREFUL if self.is_exclude else PLAIN)
        if self.is_exclude:
            return self.next_step if line_verdict is False else None
        if line_verdict is False:
            return make_mismatch(self.spec, self.line, value)
        return self.next_step if line_verdict else None


# The state of an entry: a mismatch, the next step, or None if all clauses must be evaluated.
PrefilterState: TypeAlias = Mismatch | PrefilterStep | None


class Prefilter:
    """The state of each entry for all devices that had the same values so far, in the order of the entries.

    A prefilter keeps the prefilter that follows each value.
    """

    __slots__ = ("_mismatches", "_next_prefilters", "states")

    def __init__(self, states: Iterable[PrefilterState]) -> None:
        self.states = tuple(states)
        self._next_prefilters: dict[tuple[Source, str, Value | Absent], Prefilter] = {}
        self._mismatches: dict[int, tuple[Mismatch, ...]] = {}

    def find_mismatches(self, number: int) -> tuple[Mismatch, ...]:
        """Return the mismatches of the entries from that number on, up to the first entry without one."""
        mismatches = self._mismatches.get(number)
        if mismatches is None:
            leading_states = takewhile(lambda state: isinstance(state, Mismatch), self.states[number:])
            mismatches = self._mismatches[number] = tuple(
                state for state in leading_states if isinstance(state, Mismatch)
            )
        return mismatches

    def match_entry(
        self, number: int, by_source: Mapping[Source, HostDevice], reader: Reader
    ) -> tuple[Prefilter, Mismatch | None]:
        """Read the words that the entry of that number needs, and return its mismatch.

        The first result is the prefilter after these values. The mismatch is None if the prefilter cannot decide.
        """
        prefilter = self
        while isinstance(state := prefilter.states[number], PrefilterStep):
            source, word = state.spec.source, state.line.word
            prefilter = prefilter._get_next_prefilter(source, word, reader.read_fact(by_source[source], word))
        return prefilter, state

    def _get_next_prefilter(self, source: Source, word: str, value: Value | Absent) -> Prefilter:
        """Return the prefilter for devices with this value of a word of a source."""
        fact = source, word, value  # all values of a word have the same type
        next_prefilter = self._next_prefilters.get(fact)
        if next_prefilter is None:
            next_prefilter = self._next_prefilters[fact] = Prefilter(
                _apply_value(state, source, word, value) for state in self.states
            )
        return next_prefilter


class SourceEntries(NamedTuple):
    """The entries that see a host device, in order, each with its number, and their prefilter before any value."""

    entries: tuple[tuple[int, ResourceSpec], ...]
    prefilter: Prefilter


def select_source_entries(specs: Iterable[ResourceSpec], sources: Collection[Source]) -> SourceEntries:
    """Return the entries that see devices of these sources."""
    entries = tuple((number, spec) for number, spec in enumerate(specs) if spec.source in sources)
    return SourceEntries(entries, Prefilter(_build_steps(spec) for _, spec in entries))


def _build_steps(spec: ResourceSpec) -> PrefilterStep | None:
    """Return the first step of an entry. None if the entry needs facts even of a device that it excludes."""
    if spec.slots is not None or (spec.group is not None and spec.group.includes_unmatched):
        return None
    first_step: PrefilterStep | None = None
    for line in reversed(_find_plain_lines(spec, spec.match)):
        first_step = PrefilterStep(spec, line, is_exclude=False, next_step=first_step)
    for clause in reversed(spec.exclude):
        if clause.lines:
            lines = _find_plain_lines(spec, clause)
            first_step = PrefilterStep(spec, lines[0], is_exclude=True, next_step=first_step) if lines else None
    return first_step


def _find_plain_lines(spec: ResourceSpec, clause: Clause) -> list[ClauseLine]:
    """Return the first lines of a clause that the value of a source word decides."""
    lines: list[ClauseLine] = []
    for line in clause.lines:
        if not isinstance(line, ClauseLine) or not line.is_plain or line.word in spec.derived_words:
            break
        lines.append(line)
    return lines


def _apply_value(state: PrefilterState, source: Source, word: str, value: Value | Absent) -> PrefilterState:
    while isinstance(state, PrefilterStep) and state.line.word == word and state.spec.source == source:
        state = state.evaluate(value)
    return state


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
