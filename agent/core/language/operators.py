"""Tests: what is asked of one fact. Each says whether it holds, does not, or cannot be decided."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Protocol

from agent.core.language.glob import Glob
from agent.core.language.logic import Knowledge, Logic, Verdict, both, either, opposite
from agent.core.language.value import Absent, Scalar, Value, ValueType, comparable, equal, text_of
from agent.core.struct import Struct, not_compared


class WholeTest(Protocol):
    """What is asked of a whole thing: a clause."""

    def verdict(self, facts: Knowledge, logic: Logic) -> Verdict:
        """Whether it holds of the thing."""


class Test(Protocol):
    """What is asked of one fact. Equal tests are equal values."""

    def verdict(self, kind: ValueType, value: Value | Absent, facts: Knowledge, logic: Logic) -> Verdict:
        """Whether it holds of a value of that kind, which is one of these facts."""


def _absent(value: Absent, logic: Logic) -> Verdict:
    return None if logic.value(value) else False


class Equals(Struct):
    """`"x"`, `1`, `true`: equal by the word's kind. Of a list it never holds."""

    operand: Scalar

    def verdict(self, kind: ValueType, value: Value | Absent, facts: Knowledge, logic: Logic) -> Verdict:
        del facts
        if isinstance(value, Absent):
            return _absent(value, logic)
        return not isinstance(value, tuple) and equal(kind, value, self.operand)


class Like(Struct):
    """`{ like = … }`: fits one of these globs, whole."""

    patterns: tuple[Glob, ...]

    def verdict(self, kind: ValueType, value: Value | Absent, facts: Knowledge, logic: Logic) -> Verdict:
        del kind, facts
        if isinstance(value, Absent):
            return _absent(value, logic)
        if isinstance(value, tuple):
            return False
        text = text_of(value)
        return any(pattern.matches(text) for pattern in self.patterns)


@not_compared("fits")
class Matching(Struct):
    """`{ matching = … }`: fits the whole regular expression, which `fits` asks in linear time."""

    expression: str
    fits: Callable[[str], bool]

    def verdict(self, kind: ValueType, value: Value | Absent, facts: Knowledge, logic: Logic) -> Verdict:
        del kind, facts
        if isinstance(value, Absent):
            return _absent(value, logic)
        return not isinstance(value, tuple) and self.fits(text_of(value))


class Contains(Struct):
    """`{ contains = … }`: that piece is in it."""

    piece: str

    def verdict(self, kind: ValueType, value: Value | Absent, facts: Knowledge, logic: Logic) -> Verdict:
        del kind, facts
        if isinstance(value, Absent):
            return _absent(value, logic)
        return not isinstance(value, tuple) and self.piece in text_of(value)


class Within(Struct):
    """`in`, `at_least`, `at_most`, `above`, `below`: in one of these ranges, ends included; None: open at that end."""

    ranges: tuple[tuple[int | None, int | None], ...]

    def verdict(self, kind: ValueType, value: Value | Absent, facts: Knowledge, logic: Logic) -> Verdict:
        del facts
        if isinstance(value, Absent):
            return _absent(value, logic)
        if isinstance(value, tuple):
            return False
        number = comparable(kind, value)
        return isinstance(number, int) and any(
            (low is None or low <= number) and (high is None or number <= high) for low, high in self.ranges
        )


class Exists(Struct):
    """`{ exists = … }`: is there, or is not; an empty list is not."""

    wanted: bool

    def verdict(self, kind: ValueType, value: Value | Absent, facts: Knowledge, logic: Logic) -> Verdict:
        del kind, facts
        if isinstance(value, Absent) and logic.presence(value):
            return None
        return (isinstance(value, Absent) or value == ()) != self.wanted


class Not(Struct):
    """`{ not = … }`: the test fails."""

    test: Test

    def verdict(self, kind: ValueType, value: Value | Absent, facts: Knowledge, logic: Logic) -> Verdict:
        return opposite(self.test.verdict(kind, value, facts, logic))


class AnyOf(Struct):
    """A list: one of them."""

    tests: tuple[Test, ...]

    def verdict(self, kind: ValueType, value: Value | Absent, facts: Knowledge, logic: Logic) -> Verdict:
        return either(test.verdict(kind, value, facts, logic) for test in self.tests)


class AllOf(Struct):
    """Several operators in one table: all of them."""

    tests: tuple[Test, ...]

    def verdict(self, kind: ValueType, value: Value | Absent, facts: Knowledge, logic: Logic) -> Verdict:
        return both(test.verdict(kind, value, facts, logic) for test in self.tests)


class Has(Struct):
    """`{ has = … }`: is in the list."""

    operand: Scalar

    def verdict(self, kind: ValueType, value: Value | Absent, facts: Knowledge, logic: Logic) -> Verdict:
        del facts
        if isinstance(value, Absent):
            return _absent(value, logic)
        return isinstance(value, tuple) and any(equal(kind, item, self.operand) for item in value)


class Quantifier(Enum):
    """Of how many of a list something is asked; the values are the operators."""

    ANY = "any"
    EVERY = "every"
    NONE = "none"

    def verdict(self, verdicts: Sequence[Verdict]) -> Verdict:
        """Whether it holds of so many, by what holds of each. Of an empty list only `none` does."""
        if self is Quantifier.NONE:
            return opposite(either(verdicts))
        return bool(verdicts) and (both(verdicts) if self is Quantifier.EVERY else either(verdicts))

    def of_absent(self, value: Absent, logic: Logic) -> Verdict:
        """The same of a list that is not there."""
        if self is Quantifier.NONE:
            return None if logic.presence(value) else True
        return _absent(value, logic)


class Items(Struct):
    """`any`, `every`, `none` of a list: the test holds of so many of its items."""

    of: Quantifier
    test: Test

    def verdict(self, kind: ValueType, value: Value | Absent, facts: Knowledge, logic: Logic) -> Verdict:
        if isinstance(value, Absent):
            return self.of.of_absent(value, logic)
        if not isinstance(value, tuple):
            return False
        return self.of.verdict([self.test.verdict(kind, item, facts, logic) for item in value])


class Things(Struct):
    """`any`, `every`, `none` of a many: the clause holds of so many of the things that the word leads to."""

    of: Quantifier
    word: str
    clause: WholeTest

    def verdict(self, kind: ValueType, value: Value | Absent, facts: Knowledge, logic: Logic) -> Verdict:
        del kind, value
        things = facts.each(self.word)
        if isinstance(things, Absent):
            return self.of.of_absent(things, logic)
        return self.of.verdict([self.clause.verdict(thing, logic) for thing in things])


class Count(Struct):
    """`{ count = … }`: the test holds of the number of items; what is absent has none."""

    test: Test

    def verdict(self, kind: ValueType, value: Value | Absent, facts: Knowledge, logic: Logic) -> Verdict:
        del kind
        if isinstance(value, Absent):
            return None if logic.presence(value) else self.test.verdict(ValueType.INT, 0, facts, logic)
        return isinstance(value, tuple) and self.test.verdict(ValueType.INT, len(value), facts, logic)
