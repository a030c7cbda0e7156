"""`when`: what is given only where a clause holds. It is asked for the device's list, and again for each grant."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeVar

from agent.core.entry.resource import is_of_giving
from agent.core.language.clause import Clause, shown, things_in
from agent.core.language.logic import CAREFUL, Knowledge
from agent.core.language.value import Absent, Value

_KNOWN_LATER = Absent("is known when a container gets it", pending=True)


class Conditional(Protocol):
    """One of the things that an entry gives."""

    @property
    def when(self) -> Clause | None:
        """Where it is given; None if always."""


_C = TypeVar("_C", bound=Conditional)


@dataclass(frozen=True, slots=True)
class Recorded:
    """What clauses read of one thing, so that they can be asked again when it cannot be read any more."""

    words: Mapping[str, Value | Absent]
    things: Mapping[str, tuple[Recorded, ...] | Absent]

    def __call__(self, word: str) -> Value | Absent:
        """See `Knowledge`."""
        return self.words.get(word, Absent("was not read"))

    def each(self, word: str) -> tuple[Recorded, ...] | Absent:
        """See `Knowledge`."""
        return self.things.get(word, Absent("was not read"))


class _Before:
    """What is known of a device before a container gets it."""

    def __init__(self, facts: Knowledge) -> None:
        self._facts = facts

    def __call__(self, word: str) -> Value | Absent:
        return _KNOWN_LATER if is_of_giving(word) else self._facts(word)

    def each(self, word: str) -> tuple[Knowledge, ...] | Absent:
        return self._facts.each(word)


def expected(gives: Iterable[_C], facts: Knowledge) -> Iterator[tuple[_C, str]]:
    """What of these a device may have to give, each with the reason why that cannot be said; empty if it can."""
    for give in gives:
        doubt = "" if give.when is None else _doubt(give.when, _Before(facts))
        if doubt is not None:
            yield give, doubt


def holds(when: Clause | None, facts: Knowledge) -> bool | str:
    """Whether something is given; the reason if that cannot be said: what it rests on could not be read."""
    if when is None:
        return True
    doubt = _doubt(when, facts)
    return doubt or doubt is not None


def things(clauses: Iterable[Clause], facts: Knowledge) -> dict[str, tuple[Recorded, ...] | Absent]:
    """What these clauses read of the things that words lead to, by word."""
    asked: dict[str, list[Clause]] = {}
    for clause in clauses:
        for line in clause.every_line():
            for many in things_in(line.test):
                if isinstance(many.clause, Clause):
                    asked.setdefault(many.word, []).append(many.clause)
    return {word: _recorded(inner, facts.each(word)) for word, inner in asked.items()}


def _recorded(clauses: list[Clause], found: tuple[Knowledge, ...] | Absent) -> tuple[Recorded, ...] | Absent:
    if isinstance(found, Absent):
        return found
    words = {line.word for clause in clauses for line in clause.every_line()}
    return tuple(Recorded({word: thing(word) for word in words}, things(clauses, thing)) for thing in found)


def _doubt(when: Clause, facts: Knowledge) -> str | None:
    """Why it cannot be said whether a clause holds; empty if it does, or if only a grant can say; None if it does not.

    What could not be read decides nothing: a container would silently get less than it was promised, or more.
    """
    failed = when.failing(facts, CAREFUL)
    if failed is None or failed.doubt is _KNOWN_LATER:
        return ""
    return None if failed.doubt is None else f"{failed.statement.address}: {shown(failed.doubt)}"
