"""Tests: what is asked of one fact. Each says whether it holds, does not, or cannot be decided."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Protocol

from agent.core.language.glob import Glob
from agent.core.language.logic import Knowledge, Logic, Verdict, combine_and, combine_or, negate
from agent.core.language.value import Absent, Scalar, Value, ValueType, format_scalar, is_equal, make_comparable
from agent.core.struct import Struct, not_compared


class WholeTest(Protocol):
    """What is asked of a whole thing: a clause."""

    def evaluate(self, facts: Knowledge, logic: Logic) -> Verdict:
        """Whether it holds of the thing."""


class Test(Protocol):
    """What is asked of one fact. Equal tests are equal values."""

    def evaluate(self, kind: ValueType, value: Value | Absent, facts: Knowledge, logic: Logic) -> Verdict:
        """Whether it holds of a value of that kind, which is one of these facts."""


def _evaluate_absent(value: Absent, logic: Logic) -> Verdict:
    return None if logic.is_value_undecided(value) else False


class Equals(Struct):
    """`"x"`, `1`, `true`: equal by the word's kind. Of a list it never holds."""

    operand: Scalar

    def evaluate(self, kind: ValueType, value: Value | Absent, facts: Knowledge, logic: Logic) -> Verdict:
        del facts
        if isinstance(value, Absent):
            return _evaluate_absent(value, logic)
        return not isinstance(value, tuple) and is_equal(kind, value, self.operand)


class Like(Struct):
    """`{ like = … }`: fits one of these globs, whole."""

    patterns: tuple[Glob, ...]

    def evaluate(self, kind: ValueType, value: Value | Absent, facts: Knowledge, logic: Logic) -> Verdict:
        del kind, facts
        if isinstance(value, Absent):
            return _evaluate_absent(value, logic)
        if isinstance(value, tuple):
            return False
        text = format_scalar(value)
        return any(pattern.matches(text) for pattern in self.patterns)


@not_compared("fits")
class Matching(Struct):
    """`{ matching = … }`: fits the whole regular expression, which `fits` asks in linear time."""

    expression: str
    fits: Callable[[str], bool]

    def evaluate(self, kind: ValueType, value: Value | Absent, facts: Knowledge, logic: Logic) -> Verdict:
        del kind, facts
        if isinstance(value, Absent):
            return _evaluate_absent(value, logic)
        return not isinstance(value, tuple) and self.fits(format_scalar(value))


class Contains(Struct):
    """`{ contains = … }`: that piece is in it."""

    piece: str

    def evaluate(self, kind: ValueType, value: Value | Absent, facts: Knowledge, logic: Logic) -> Verdict:
        del kind, facts
        if isinstance(value, Absent):
            return _evaluate_absent(value, logic)
        return not isinstance(value, tuple) and self.piece in format_scalar(value)


class Within(Struct):
    """`in`, `at_least`, `at_most`, `above`, `below`: in one of these ranges, ends included; None: open at that end."""

    ranges: tuple[tuple[int | None, int | None], ...]

    def evaluate(self, kind: ValueType, value: Value | Absent, facts: Knowledge, logic: Logic) -> Verdict:
        del facts
        if isinstance(value, Absent):
            return _evaluate_absent(value, logic)
        if isinstance(value, tuple):
            return False
        number = make_comparable(kind, value)
        return isinstance(number, int) and any(
            (low is None or low <= number) and (high is None or number <= high) for low, high in self.ranges
        )


class Exists(Struct):
    """`{ exists = … }`: is there, or is not; an empty list is not."""

    must_exist: bool

    def evaluate(self, kind: ValueType, value: Value | Absent, facts: Knowledge, logic: Logic) -> Verdict:
        del kind, facts
        if isinstance(value, Absent) and logic.is_presence_undecided(value):
            return None
        return (isinstance(value, Absent) or value == ()) != self.must_exist


class Not(Struct):
    """`{ not = … }`: the test fails."""

    test: Test

    def evaluate(self, kind: ValueType, value: Value | Absent, facts: Knowledge, logic: Logic) -> Verdict:
        return negate(self.test.evaluate(kind, value, facts, logic))


class AnyTest(Struct):
    """A list: one of them."""

    tests: tuple[Test, ...]

    def evaluate(self, kind: ValueType, value: Value | Absent, facts: Knowledge, logic: Logic) -> Verdict:
        return combine_or(test.evaluate(kind, value, facts, logic) for test in self.tests)


class AllTests(Struct):
    """Several operators in one table: all of them."""

    tests: tuple[Test, ...]

    def evaluate(self, kind: ValueType, value: Value | Absent, facts: Knowledge, logic: Logic) -> Verdict:
        return combine_and(test.evaluate(kind, value, facts, logic) for test in self.tests)


class Has(Struct):
    """`{ has = … }`: is in the list."""

    operand: Scalar

    def evaluate(self, kind: ValueType, value: Value | Absent, facts: Knowledge, logic: Logic) -> Verdict:
        del facts
        if isinstance(value, Absent):
            return _evaluate_absent(value, logic)
        return isinstance(value, tuple) and any(is_equal(kind, item, self.operand) for item in value)


class Quantifier(Enum):
    """Of how many of a list something is asked; the values are the operators."""

    ANY = "any"
    EVERY = "every"
    NONE = "none"

    def combine(self, verdicts: Sequence[Verdict]) -> Verdict:
        """Whether it holds of so many, by what holds of each. Of an empty list only `none` does."""
        if self is Quantifier.NONE:
            return negate(combine_or(verdicts))
        return bool(verdicts) and (combine_and(verdicts) if self is Quantifier.EVERY else combine_or(verdicts))

    def evaluate_absent(self, value: Absent, logic: Logic) -> Verdict:
        """The same of a list that is not there."""
        if self is Quantifier.NONE:
            return None if logic.is_presence_undecided(value) else True
        return _evaluate_absent(value, logic)


class Items(Struct):
    """`any`, `every`, `none` of a list: the test holds of so many of its items."""

    quantifier: Quantifier
    test: Test

    def evaluate(self, kind: ValueType, value: Value | Absent, facts: Knowledge, logic: Logic) -> Verdict:
        if isinstance(value, Absent):
            return self.quantifier.evaluate_absent(value, logic)
        if not isinstance(value, tuple):
            return False
        return self.quantifier.combine([self.test.evaluate(kind, item, facts, logic) for item in value])


class RelationItems(Struct):
    """`any`, `every`, `none` of a many: the clause holds of so many of the things that the word leads to."""

    quantifier: Quantifier
    word: str
    clause: WholeTest

    def evaluate(self, kind: ValueType, value: Value | Absent, facts: Knowledge, logic: Logic) -> Verdict:
        del kind, value
        things = facts.follow_relation(self.word)
        if isinstance(things, Absent):
            return self.quantifier.evaluate_absent(things, logic)
        return self.quantifier.combine([self.clause.evaluate(thing, logic) for thing in things])


class Count(Struct):
    """`{ count = … }`: the test holds of the number of items; what is absent has none."""

    test: Test

    def evaluate(self, kind: ValueType, value: Value | Absent, facts: Knowledge, logic: Logic) -> Verdict:
        del kind
        if isinstance(value, Absent):
            return None if logic.is_presence_undecided(value) else self.test.evaluate(ValueType.INT, 0, facts, logic)
        return isinstance(value, tuple) and self.test.evaluate(ValueType.INT, len(value), facts, logic)
