"""Prefilter: match entries once for all devices with the same values of a few words.

Nearly every entry excludes nearly every device by vendor, driver or another fact that many devices share.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from itertools import takewhile
from typing import NamedTuple, TypeAlias

from agent.core.entry.resource_spec import ResourceSpec, Source
from agent.core.inventory.device import HostDevice
from agent.core.inventory.facts import Reader
from agent.core.inventory.matching import Mismatch, make_mismatch
from agent.core.language.clause import Clause, ClauseLine
from agent.core.language.logic import CAREFUL, PLAIN
from agent.core.language.value import Absent, Value
from agent.core.struct import Struct


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
