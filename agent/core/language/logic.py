"""What a condition can come to, and what an absent word means to it.

One evaluation for every place that a clause stands in: only the `Logic` differs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol, TypeAlias

from agent.core.language.value import Absent, Value
from agent.core.struct import Struct

Verdict: TypeAlias = bool | None  # None: undecided


class Knowledge(Protocol):
    """What is known of one thing."""

    def __call__(self, word: str) -> Value | Absent:
        """What a word says of it."""

    def follow_relation(self, word: str) -> tuple[Knowledge, ...] | Absent:
        """What is known of each thing that a many leads to."""


class _NoFacts:
    """Of a thing of which nothing is known."""

    def __call__(self, word: str) -> Value | Absent:
        """See `Knowledge`."""
        return Absent(f"{word} is not known")

    def follow_relation(self, word: str) -> tuple[Knowledge, ...] | Absent:
        """See `Knowledge`."""
        return Absent(f"{word} is not known")


NO_FACTS = _NoFacts()


class Logic(Struct):
    """What an absent word means: whether a test of its value, or of whether it is there, stays undecided by it.

    Where it does not, a test of the value fails, and the word counts as not being there.
    """

    is_value_undecided: Callable[[Absent], bool]
    is_presence_undecided: Callable[[Absent], bool]


# match, wait: an absent word meets only `not`, `none`, `count` and `exists = false`.
PLAIN = Logic(lambda absent: absent.pending, lambda absent: absent.pending)
# exclude: what could not be read may be the very thing to be excluded.
CAREFUL = Logic(lambda absent: absent.pending or absent.unreadable, lambda absent: absent.pending or absent.unreadable)
# health: nothing is said of what a missing word would decide (Kleene).
THREE_VALUED = Logic(lambda _: True, lambda absent: absent.pending)


def combine_and(verdicts: Iterable[Verdict]) -> Verdict:
    """Whether all hold: one that does not decides, whatever is undecided."""
    undecided = False
    for verdict in verdicts:
        if verdict is False:
            return False
        undecided |= verdict is None
    return None if undecided else True


def combine_or(verdicts: Iterable[Verdict]) -> Verdict:
    """Whether one holds: one that does decides, whatever is undecided."""
    undecided = False
    for verdict in verdicts:
        if verdict:
            return True
        undecided |= verdict is None
    return None if undecided else False


def negate(verdict: Verdict) -> Verdict:
    """Whether it does not hold."""
    return None if verdict is None else not verdict
