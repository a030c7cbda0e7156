"""Conditions (`when`) of what an entry gives. They are evaluated for the device list, and again for each grant."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol, TypeVar

from agent.core.entry.resource_spec import is_grant_word
from agent.core.language.clause import Clause, format_fact
from agent.core.language.logic import CAREFUL, Knowledge
from agent.core.language.value import Absent, Value

# For words of a grant, and for the health of partners, which is known only after a look.
KNOWN_LATER = Absent("is known when a container gets it", pending=True)


class ConditionalGive(Protocol):
    """One thing that an entry gives, with its condition."""

    @property
    def condition(self) -> Clause | None:
        """The clause that must match. None: always given."""


_C = TypeVar("_C", bound=ConditionalGive)


class _FactsBeforeGrant:
    """The facts of a device before a container gets the device."""

    def __init__(self, facts: Knowledge) -> None:
        self._facts = facts

    def __call__(self, word: str) -> Value | Absent:
        """Return the value of a word. Words of a grant are pending."""
        return KNOWN_LATER if is_grant_word(word) else self._facts(word)

    def follow_relation(self, word: str) -> tuple[Knowledge, ...] | Absent:
        """Return the devices of a relation."""
        return self._facts.follow_relation(word)


def find_possible_gives(gives: Iterable[_C], facts: Knowledge) -> Iterator[tuple[_C, str]]:
    """Yield what a device can give, each with the reason why its condition is undecided, or an empty string."""
    for give in gives:
        reason = "" if give.condition is None else _find_undecided_reason(give.condition, _FactsBeforeGrant(facts))
        if reason is not None:
            yield give, reason


def decide_condition(condition: Clause | None, facts: Knowledge) -> bool | str:
    """Return whether the condition matches, or a reason if a word that decides the condition is unreadable."""
    if condition is None:
        return True
    reason = _find_undecided_reason(condition, facts)
    return reason or reason is not None


def _find_undecided_reason(condition: Clause, facts: Knowledge) -> str | None:
    """Return why a condition is undecided. Return an empty string if the condition matches, or if only a grant can
    decide. Return None if it does not match.

    An unreadable value decides nothing. Otherwise a container could silently get less than the entry promises, or
    more.
    """
    failed_line = condition.find_failed_line(facts, CAREFUL)
    if failed_line is None or failed_line.undecided_fact is KNOWN_LATER:
        return ""
    return (
        None
        if failed_line.undecided_fact is None
        else f"{failed_line.statement.address}: {format_fact(failed_line.undecided_fact)}"
    )
