"""`when`: what is given only where a clause holds. It is asked for the device's list, and again for each grant."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol, TypeVar

from agent.core.entry.resource_spec import is_of_giving
from agent.core.language.clause import Clause, format_fact
from agent.core.language.logic import CAREFUL, Knowledge
from agent.core.language.value import Absent, Value

# Of the giving itself, and of the health of partners, which is known after a look.
KNOWN_LATER = Absent("is known when a container gets it", pending=True)


class Conditional(Protocol):
    """One of the things that an entry gives."""

    @property
    def when(self) -> Clause | None:
        """Where it is given; None if always."""


_C = TypeVar("_C", bound=Conditional)


class _Before:
    """What is known of a device before a container gets it."""

    def __init__(self, facts: Knowledge) -> None:
        self._facts = facts

    def __call__(self, word: str) -> Value | Absent:
        return KNOWN_LATER if is_of_giving(word) else self._facts(word)

    def follow_relation(self, word: str) -> tuple[Knowledge, ...] | Absent:
        return self._facts.follow_relation(word)


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


def _doubt(when: Clause, facts: Knowledge) -> str | None:
    """Why it cannot be said whether a clause holds; empty if it does, or if only a grant can say; None if it does not.

    What could not be read decides nothing: a container would silently get less than it was promised, or more.
    """
    failed = when.find_failed_line(facts, CAREFUL)
    if failed is None or failed.undecided_fact is KNOWN_LATER:
        return ""
    return (
        None if failed.undecided_fact is None else f"{failed.statement.address}: {format_fact(failed.undecided_fact)}"
    )
