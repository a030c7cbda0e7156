"""`when`: what is given only where a clause holds. It is asked for the device's list, and again for each grant."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol, TypeVar

from agent.core.entry.resource_spec import is_grant_word
from agent.core.language.clause import Clause, format_fact
from agent.core.language.logic import CAREFUL, Knowledge
from agent.core.language.value import Absent, Value

# Of the giving itself, and of the health of partners, which is known after a look.
KNOWN_LATER = Absent("is known when a container gets it", pending=True)


class ConditionalGive(Protocol):
    """One of the things that an entry gives."""

    @property
    def condition(self) -> Clause | None:
        """Where it is given; None if always."""


_C = TypeVar("_C", bound=ConditionalGive)


class _FactsBeforeGrant:
    """What is known of a device before a container gets it."""

    def __init__(self, facts: Knowledge) -> None:
        self._facts = facts

    def __call__(self, word: str) -> Value | Absent:
        return KNOWN_LATER if is_grant_word(word) else self._facts(word)

    def follow_relation(self, word: str) -> tuple[Knowledge, ...] | Absent:
        return self._facts.follow_relation(word)


def find_possible_gives(gives: Iterable[_C], facts: Knowledge) -> Iterator[tuple[_C, str]]:
    """What of these a device may have to give, each with the reason why that cannot be said; empty if it can."""
    for give in gives:
        doubt = "" if give.condition is None else _find_doubt(give.condition, _FactsBeforeGrant(facts))
        if doubt is not None:
            yield give, doubt


def decide_condition(condition: Clause | None, facts: Knowledge) -> bool | str:
    """Whether something is given; the reason if that cannot be said: what it rests on could not be read."""
    if condition is None:
        return True
    doubt = _find_doubt(condition, facts)
    return doubt or doubt is not None


def _find_doubt(condition: Clause, facts: Knowledge) -> str | None:
    """Why it cannot be said whether a clause holds; empty if it does, or if only a grant can say; None if it does not.

    What could not be read decides nothing: a container would silently get less than it was promised, or more.
    """
    failed = condition.find_failed_line(facts, CAREFUL)
    if failed is None or failed.undecided_fact is KNOWN_LATER:
        return ""
    return (
        None if failed.undecided_fact is None else f"{failed.statement.address}: {format_fact(failed.undecided_fact)}"
    )
