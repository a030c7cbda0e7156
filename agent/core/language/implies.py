"""Implication: whether a clause can only hold where another does. What cannot be told is said not to."""

from __future__ import annotations

from agent.core.language.clause import Clause, ClauseLine, EitherLine, Statement
from agent.core.language.logic import NO_FACTS, PLAIN
from agent.core.language.operators import (
    AllTests,
    AnyTest,
    Contains,
    Equals,
    Exists,
    Has,
    Items,
    Like,
    Matching,
    Not,
    Quantifier,
    Test,
    Within,
)
from agent.core.language.value import ValueType, is_equal

_SOMETHING = (Equals, Like, Matching, Contains, Within, Has)  # hold only of what is there
_WHOLE = frozenset(
    {ValueType.TEXT, ValueType.PATH, ValueType.INT, ValueType.BOOL}
)  # kinds of which an operand is one value


def clause_implies(narrow: Clause, wide: Clause) -> bool:
    """Whether `wide` holds of everything that `narrow` holds of."""
    return all(any(_statement_implies(one, other) for one in narrow.lines) for other in wide.lines)


def implies(kind: ValueType, narrow: Test, wide: Test) -> bool:
    """Whether one test of a word of that kind holds of everything that another holds of."""
    if narrow == wide:
        return True
    if isinstance(narrow, AnyTest):
        return all(implies(kind, one, wide) for one in narrow.tests)
    if isinstance(wide, AllTests):
        return all(implies(kind, narrow, one) for one in wide.tests)
    if isinstance(narrow, AllTests) and any(implies(kind, one, wide) for one in narrow.tests):
        return True
    if isinstance(wide, AnyTest):
        return any(implies(kind, narrow, one) for one in wide.tests)
    match narrow, wide:
        case Not(one), Not(other):
            return implies(kind, other, one)
        case Equals(operand), Equals(other):
            return is_equal(kind, operand, other)  # a class, an address: the one with more digits says more
        case Equals(operand), _ if kind in _WHOLE:
            return wide.evaluate(kind, operand, NO_FACTS, PLAIN) is True
        case (_, Exists(True)):
            some = isinstance(narrow, Items) and narrow.quantifier is not Quantifier.NONE
            return some or isinstance(narrow, _SOMETHING)
    return False


def _statement_implies(narrow: Statement, wide: Statement) -> bool:
    if narrow == wide:
        return True
    if isinstance(narrow, EitherLine):
        whole = Clause("", (wide,), wide.origin)
        return all(clause_implies(alternative, whole) for alternative in narrow.alternatives)
    if isinstance(wide, EitherLine):
        whole = Clause("", (narrow,), narrow.origin)
        return any(clause_implies(whole, alternative) for alternative in wide.alternatives)
    return _line_implies(narrow, wide)


def _line_implies(narrow: ClauseLine, wide: ClauseLine) -> bool:
    return (narrow.word, narrow.kind) == (wide.word, wide.kind) and implies(narrow.kind, narrow.test, wide.test)
