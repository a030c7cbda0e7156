"""Judging at a glance: how entries judge all devices of which a few facts are equal, worked out once for all of these.

Nearly every entry turns nearly every device down by its vendor, its driver or some other fact that many share.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from itertools import takewhile
from typing import NamedTuple, TypeAlias

from agent.core.entry.resource import ResourceSpec, Source
from agent.core.inventory.device import HostDevice
from agent.core.inventory.facts import Reader
from agent.core.inventory.judge import Refusal, turned_down
from agent.core.language.clause import Clause, Line
from agent.core.language.logic import CAREFUL, PLAIN
from agent.core.language.value import Absent, Value
from agent.core.struct import Struct


class Question(Struct):
    """A line of an entry that is decided by the value of its word, if all that comes before it lets a device pass.

    excluding: it is of an `exclude`. then: what is asked after it; None if that is not known by one value.
    """

    spec: ResourceSpec
    line: Line
    excluding: bool
    then: Question | None

    def answer(self, value: Value | Absent) -> Stand:
        """Where the entry stands once the word has said this."""
        verdict = self.line.decide(value, CAREFUL if self.excluding else PLAIN)
        if self.excluding:
            return self.then if verdict is False else None
        if verdict is False:
            return turned_down(self.spec, self.line, value)
        return self.then if verdict else None


# Where an entry stands: it turns the device down, it asks something, or it has to be judged in full.
Stand: TypeAlias = Refusal | Question | None


class Glance:
    """Where entries stand with the devices that have answered the same so far. `stands`: in the order of the entries.

    It remembers where answers lead, as long as it lives.
    """

    __slots__ = ("_known", "_runs", "stands")

    def __init__(self, stands: Iterable[Stand]) -> None:
        self.stands = tuple(stands)
        self._known: dict[tuple[Source, str, Value | Absent], Glance] = {}
        self._runs: dict[int, tuple[Refusal, ...]] = {}

    def refused(self, number: int) -> tuple[Refusal, ...]:
        """How the entries from that number on turn the device down, up to the first of which that is not known."""
        run = self._runs.get(number)
        if run is None:
            stands = takewhile(lambda stand: isinstance(stand, Refusal), self.stands[number:])
            run = self._runs[number] = tuple(stand for stand in stands if isinstance(stand, Refusal))
        return run

    def judge(
        self, number: int, by_source: Mapping[Source, HostDevice], reader: Reader
    ) -> tuple[Glance, Refusal | None]:
        """Ask a device what the entry of that number asks at a glance: how that turns it down, or that it does not.

        And where they all stand with the device now.
        """
        here = self
        while isinstance(stand := here.stands[number], Question):
            source, word = stand.spec.source, stand.line.word
            here = here._after(source, word, reader.fact(by_source[source], word))
        return here, stand

    def _after(self, source: Source, word: str, value: Value | Absent) -> Glance:
        """Where they stand with a device of which a word of a source says this."""
        answer = source, word, value  # of one word all values are of one type
        known = self._known.get(answer)
        if known is None:
            known = self._known[answer] = Glance(_given(stand, source, word, value) for stand in self.stands)
        return known


class View(NamedTuple):
    """The entries that see a host device, in order, each with its number among all; and a glance at nothing yet."""

    entries: tuple[tuple[int, ResourceSpec], ...]
    glance: Glance


def view(specs: Iterable[ResourceSpec], sources: Collection[Source]) -> View:
    """Those of the entries that see what these sources show."""
    entries = tuple((number, spec) for number, spec in enumerate(specs) if spec.source in sources)
    return View(entries, Glance(_first(spec) for _, spec in entries))


def _first(spec: ResourceSpec) -> Question | None:
    """What an entry asks first. What is to be known of a device that it turns down, too, is not seen at a glance."""
    if spec.slots is not None or (spec.group is not None and spec.group.claims):
        return None
    first: Question | None = None
    for line in reversed(_decided(spec, spec.match)):
        first = Question(spec, line, excluding=False, then=first)
    for clause in reversed(spec.exclude):
        if clause.lines:
            lines = _decided(spec, clause)
            first = Question(spec, lines[0], excluding=True, then=first) if lines else None
    return first


def _decided(spec: ResourceSpec, clause: Clause) -> list[Line]:
    """The lines that a clause begins with and that the value of a word of the source's decides."""
    lines: list[Line] = []
    for line in clause.lines:
        if not isinstance(line, Line) or not line.plain or line.word in spec.own:
            break
        lines.append(line)
    return lines


def _given(stand: Stand, source: Source, word: str, value: Value | Absent) -> Stand:
    while isinstance(stand, Question) and stand.line.word == word and stand.spec.source == source:
        stand = stand.answer(value)
    return stand
