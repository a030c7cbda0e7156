"""Clauses: the one form of condition. A table of lines that must all hold; each line puts a test to one word.

Two-valued (match, exclude): an absent word meets only `not` and `exists = false`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from agent.core.pattern import Pattern
from agent.core.value import Absent, Kind, Scalar, Value, equal, text_of


@dataclass(frozen=True, slots=True)
class Origin:
    """Where something was written: file relative to the configuration, line and column from 1."""

    file: str
    line: int
    column: int = 1

    def __str__(self) -> str:
        """`file:line`, as people quote it."""
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True)
class Equals:
    """`"x"`, `1`, `true`: equal by the word's kind."""

    operand: Scalar


@dataclass(frozen=True, slots=True)
class Like:
    """`{ like = … }`: fits one of these globs, whole."""

    patterns: tuple[Pattern, ...]


@dataclass(frozen=True, slots=True)
class Exists:
    """`{ exists = … }`: is there, or is not."""

    wanted: bool


@dataclass(frozen=True, slots=True)
class Has:
    """`{ has = … }`: is in the list."""

    operand: Scalar


@dataclass(frozen=True, slots=True)
class Not:
    """`{ not = … }`: the test fails."""

    test: Test


@dataclass(frozen=True, slots=True)
class AnyOf:
    """A list: one of them."""

    tests: tuple[Test, ...]


@dataclass(frozen=True, slots=True)
class AllOf:
    """Several operators in one table: all of them."""

    tests: tuple[Test, ...]


Test: TypeAlias = Equals | Like | Exists | Has | Not | AnyOf | AllOf


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a clause: the word (or path) as written, its kind, the test, and where it stands.

    `address` is its name in errors and explanations, `written` the test as the person wrote it.
    """

    address: str
    word: str
    kind: Kind
    test: Test
    written: str
    origin: Origin


@dataclass(frozen=True, slots=True)
class Clause:
    """A named clause; `lines` all hold together."""

    name: str
    lines: tuple[Line, ...]
    origin: Origin

    def failing(self, fact: Callable[[str], Value | Absent]) -> tuple[Line, Value | Absent] | None:
        """The first line that does not hold, with what was read for it; none if the clause holds.

        A line over a word that is still to come neither holds nor fails: it is named if no other fails.
        """
        pending: tuple[Line, Value | Absent] | None = None
        for line in self.lines:
            value = fact(line.word)
            if isinstance(value, Absent) and value.pending:
                pending = pending or (line, value)
            elif not holds(line.test, line.kind, value):
                return line, value
        return pending


def holds(test: Test, kind: Kind, value: Value | Absent) -> bool:
    """Whether a test holds of a fact, two-valued."""
    match test:
        case Exists(wanted):
            return (isinstance(value, Absent) or value == ()) != wanted
        case Not(inner):
            return not holds(inner, kind, value)
        case AnyOf(tests):
            return any(holds(inner, kind, value) for inner in tests)
        case AllOf(tests):
            return all(holds(inner, kind, value) for inner in tests)
    if isinstance(value, Absent):
        return False
    if isinstance(test, Has):
        return isinstance(value, tuple) and any(equal(kind, item, test.operand) for item in value)
    if isinstance(value, tuple):
        return False
    if isinstance(test, Like):
        return any(pattern.matches(text_of(value)) for pattern in test.patterns)
    return equal(kind, value, test.operand)
