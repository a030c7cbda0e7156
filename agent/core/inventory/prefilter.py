"""Judging at a glance: how entries judge all devices of which a few facts are equal, worked out once for all of these.

Nearly every entry turns nearly every device down by its vendor, its driver or some other fact that many share.
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
    """A line of an entry that is decided by the value of its word, if all that comes before it lets a device pass.

    excluding: it is of an `exclude`. then: what is asked after it; None if that is not known by one value.
    """

    spec: ResourceSpec
    line: ClauseLine
    is_exclude: bool
    next_step: PrefilterStep | None

    def evaluate(self, value: Value | Absent) -> PrefilterState:
        """Where the entry stands once the word has said this."""
        line_verdict = self.line.evaluate_value(value, CAREFUL if self.is_exclude else PLAIN)
        if self.is_exclude:
            return self.next_step if line_verdict is False else None
        if line_verdict is False:
            return make_mismatch(self.spec, self.line, value)
        return self.next_step if line_verdict else None


# Where an entry stands: it turns the device down, it asks something, or it has to be judged in full.
PrefilterState: TypeAlias = Mismatch | PrefilterStep | None


class Prefilter:
    """Where entries stand with the devices that have answered the same so far. `stands`: in the order of the entries.

    It remembers where answers lead, as long as it lives.
    """

    __slots__ = ("_mismatches", "_next_prefilters", "states")

    def __init__(self, states: Iterable[PrefilterState]) -> None:
        self.states = tuple(states)
        self._next_prefilters: dict[tuple[Source, str, Value | Absent], Prefilter] = {}
        self._mismatches: dict[int, tuple[Mismatch, ...]] = {}

    def find_mismatches(self, number: int) -> tuple[Mismatch, ...]:
        """How the entries from that number on turn the device down, up to the first of which that is not known."""
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
        """Ask a device what the entry of that number asks at a glance: how that turns it down, or that it does not.

        And where they all stand with the device now.
        """
        prefilter = self
        while isinstance(state := prefilter.states[number], PrefilterStep):
            source, word = state.spec.source, state.line.word
            prefilter = prefilter._get_next_prefilter(source, word, reader.read_fact(by_source[source], word))
        return prefilter, state

    def _get_next_prefilter(self, source: Source, word: str, value: Value | Absent) -> Prefilter:
        """Where they stand with a device of which a word of a source says this."""
        fact = source, word, value  # of one word all values are of one type
        next_prefilter = self._next_prefilters.get(fact)
        if next_prefilter is None:
            next_prefilter = self._next_prefilters[fact] = Prefilter(
                _apply_value(state, source, word, value) for state in self.states
            )
        return next_prefilter


class SourceEntries(NamedTuple):
    """The entries that see a host device, in order, each with its number among all; and a glance at nothing yet."""

    entries: tuple[tuple[int, ResourceSpec], ...]
    prefilter: Prefilter


def select_source_entries(specs: Iterable[ResourceSpec], sources: Collection[Source]) -> SourceEntries:
    """Those of the entries that see what these sources show."""
    entries = tuple((number, spec) for number, spec in enumerate(specs) if spec.source in sources)
    return SourceEntries(entries, Prefilter(_build_steps(spec) for _, spec in entries))


def _build_steps(spec: ResourceSpec) -> PrefilterStep | None:
    """What an entry asks first. What is to be known of a device that it turns down, too, is not seen at a glance."""
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
    """The lines that a clause begins with and that the value of a word of the source's decides."""
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
