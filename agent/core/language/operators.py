"""Tests of one fact. A test passes, fails or stays undecided."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Protocol

from agent.core.language.glob import Glob
from agent.core.language.logic import Knowledge, Logic, Verdict, combine_and, combine_or, negate
from agent.core.language.value import Absent, Scalar, Value, ValueType, format_scalar, is_equal, make_comparable
from agent.core.struct import Struct, ignore_in_comparison


class WholeTest(Protocol):
    """A test of a whole thing: a clause."""

    def evaluate(self, facts: Knowledge, logic: Logic) -> Verdict:
        """Return the verdict for one thing."""


class Test(Protocol):
    """A test of one fact. Equal tests are equal values."""

    def evaluate(self, kind: ValueType, value: Value | Absent, facts: Knowledge, logic: Logic) -> Verdict:
        """Return the verdict for a value of this type. The value belongs to these facts."""


def _evaluate_absent(value: Absent, logic: Logic) -> Verdict:
    return None if logic.is_value_undecided(value) else False


class Equals(Struct):
    """`"x"`, `1`, `true`: the value equals the operand by the rule of its type. A list never passes."""

    operand: Scalar

    def evaluate(self, kind: ValueType, value: Value | Absent, facts: Knowledge, logic: Logic) -> Verdict:
        del facts
        if isinstance(value, Absent):
            return _evaluate_absent(value, logic)
        return not isinstance(value, tuple) and is_equal(kind, value, self.operand)


class Like(Struct):
    """`{ like = … }`: the whole text matches one of these globs."""

    patterns: tuple[Glob, ...]

    def evaluate(self, kind: ValueType, value: Value | Absent, facts: Knowledge, logic: Logic) -> Verdict:
        del kind, facts
        if isinstance(value, Absent):
            return _evaluate_absent(value, logic)
        if isinstance(value, tuple):
            return False
        text = format_scalar(value)
        return any(pattern.matches(text) for pattern in self.patterns)


@ignore_in_comparison("fits")
class Matching(Struct):
    """`{ matching = … }`: the whole text matches a regular expression. `fits` needs linear time."""

    expression: str
    fits: Callable[[str], bool]

    def evaluate(self, kind: ValueType, value: Value | Absent, facts: Knowledge, logic: Logic) -> Verdict:
        del kind, facts
        if isinstance(value, Absent):
            return _evaluate_absent(value, logic)
        return not isinstance(value, tuple) and self.fits(format_scalar(value))


class Contains(Struct):
    """`{ contains = … }`: the text contains this piece."""

    piece: str

    def evaluate(self, kind: ValueType, value: Value | Absent, facts: Knowledge, logic: Logic) -> Verdict:
        del kind, facts
        if isinstance(value, Absent):
            return _evaluate_absent(value, logic)
        return not isinstance(value, tuple) and self.piece in format_scalar(value)


class Within(Struct):
    """`in`, `at_least`, `at_most`, `above`, `below`: the number is in one of these ranges.

    Both ends belong to a range. None: the range is open at this end.
    """

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
    """`{ exists = … }`: the word has a value, or has none. An empty list counts as no value."""

    must_exist: bool

    def evaluate(self, kind: ValueType, value: Value | Absent, facts: Knowledge, logic: Logic) -> Verdict:
        del kind, facts
        if isinstance(value, Absent) and logic.is_presence_undecided(value):
            return None
        return (isinstance(value, Absent) or value == ()) != self.must_exist


class Not(Struct):
    """`{ not = … }`: the inner test fails."""

    test: Test

    def evaluate(self, kind: ValueType, value: Value | Absent, facts: Knowledge, logic: Logic) -> Verdict:
        return negate(self.test.evaluate(kind, value, facts, logic))


class AnyTest(Struct):
    """A list of tests: at least one passes."""

    tests: tuple[Test, ...]

    def evaluate(self, kind: ValueType, value: Value | Absent, facts: Knowledge, logic: Logic) -> Verdict:
        return combine_or(test.evaluate(kind, value, facts, logic) for test in self.tests)


class AllTests(Struct):
    """Several operators in one table: all pass."""

    tests: tuple[Test, ...]

    def evaluate(self, kind: ValueType, value: Value | Absent, facts: Knowledge, logic: Logic) -> Verdict:
        return combine_and(test.evaluate(kind, value, facts, logic) for test in self.tests)


class Has(Struct):
    """`{ has = … }`: the list contains the operand."""

    operand: Scalar

    def evaluate(self, kind: ValueType, value: Value | Absent, facts: Knowledge, logic: Logic) -> Verdict:
        del facts
        if isinstance(value, Absent):
            return _evaluate_absent(value, logic)
        return isinstance(value, tuple) and any(is_equal(kind, item, self.operand) for item in value)


class Quantifier(Enum):
    """The number of list items that must pass: any, every or none. The values are the operators."""

    ANY = "any"
    EVERY = "every"
    NONE = "none"

    def combine(self, verdicts: Sequence[Verdict]) -> Verdict:
        """Return the verdict of a list from the verdicts of its items. For an empty list only `none` passes."""
        if self is Quantifier.NONE:
            return negate(combine_or(verdicts))
        return bool(verdicts) and (combine_and(verdicts) if self is Quantifier.EVERY else combine_or(verdicts))

    def evaluate_absent(self, value: Absent, logic: Logic) -> Verdict:
        """Return the verdict for a list that is absent."""
        if self is Quantifier.NONE:
            return None if logic.is_presence_undecided(value) else True
        return _evaluate_absent(value, logic)


class Items(Struct):
    """`any`, `every`, `none` of a list: this many of its items pass the test."""

    quantifier: Quantifier
    test: Test

    def evaluate(self, kind: ValueType, value: Value | Absent, facts: Knowledge, logic: Logic) -> Verdict:
        if isinstance(value, Absent):
            return self.quantifier.evaluate_absent(value, logic)
        if not isinstance(value, tuple):
            return False
        return self.quantifier.combine([self.test.evaluate(kind, item, facts, logic) for item in value])


class RelationItems(Struct):
    """`any`, `every`, `none` of a list relation: this many of its items match the clause."""

    quantifier: Quantifier
    word: str
    clause: WholeTest

    def evaluate(self, kind: ValueType, value: Value | Absent, facts: Knowledge, logic: Logic) -> Verdict:
        del kind, value
        things = facts.follow_relation(self.word)
        if isinstance(things, Absent):
            return self.quantifier.evaluate_absent(things, logic)
        return self.quantifier.combine([self.clause.evaluate(thing, logic) for thing in things])


class ItemCount(Struct):
    """`{ count = … }`: the number of items passes the test. An absent list has 0 items."""

    test: Test

    def evaluate(self, kind: ValueType, value: Value | Absent, facts: Knowledge, logic: Logic) -> Verdict:
        del kind
        if isinstance(value, Absent):
            return None if logic.is_presence_undecided(value) else self.test.evaluate(ValueType.INT, 0, facts, logic)
        return isinstance(value, tuple) and self.test.evaluate(ValueType.INT, len(value), facts, logic)
