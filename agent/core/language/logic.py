"""Verdicts of tests, and the effect of absent words on them.

Every clause uses the same evaluation. Only the `Logic` differs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol, TypeAlias

from agent.core.language.value import Absent, Value
from agent.core.struct import Struct

Verdict: TypeAlias = bool | None  # None: undecided


class Knowledge(Protocol):
    """The facts of one thing."""

    def __call__(self, word: str) -> Value | Absent:
        """Return the value of a word."""

    def follow_relation(self, word: str) -> tuple[Knowledge, ...] | Absent:
        """Return the facts of each item of a list relation."""


class _NoFacts:
    """A thing without any fact."""

    def __call__(self, word: str) -> Value | Absent:
        """See `Knowledge`."""
        return Absent(f"{word} is not known")

    def follow_relation(self, word: str) -> tuple[Knowledge, ...] | Absent:
        """See `Knowledge`."""
        return Absent(f"{word} is not known")


NO_FACTS = _NoFacts()


class Logic(Struct):
    """The effect of an absent word: the test stays undecided, or not.

    is_value_undecided: whether a test of the value stays undecided. If not, the test fails.
    is_presence_undecided: whether a test of existence stays undecided. If not, the word does not exist.
    """

    is_value_undecided: Callable[[Absent], bool]
    is_presence_undecided: Callable[[Absent], bool]


# match, wait: for an absent word only `not`, `none`, `count` and `exists = false` pass.
PLAIN = Logic(lambda absent: absent.pending, lambda absent: absent.pending)
# exclude: an unreadable device may be the device to exclude.
CAREFUL = Logic(lambda absent: absent.pending or absent.unreadable, lambda absent: absent.pending or absent.unreadable)
# health: a test of a missing word has no result (three-valued logic of Kleene).
THREE_VALUED = Logic(lambda _: True, lambda absent: absent.pending)


def combine_and(verdicts: Iterable[Verdict]) -> Verdict:
    """Return whether all verdicts are true. One false verdict decides, even if others are undecided."""
    undecided = False
    for verdict in verdicts:
        if verdict is False:
            return False
        undecided |= verdict is None
    return None if undecided else True


def combine_or(verdicts: Iterable[Verdict]) -> Verdict:
    """Return whether one verdict is true. One true verdict decides, even if others are undecided."""
    undecided = False
    for verdict in verdicts:
        if verdict:
            return True
        undecided |= verdict is None
    return None if undecided else False


def negate(verdict: Verdict) -> Verdict:
    """Return the opposite verdict. An undecided verdict stays undecided."""
    return None if verdict is None else not verdict
