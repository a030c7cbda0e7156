"""Shadowing: an earlier entry that takes all devices of a later entry, because each test of it is implied."""

from __future__ import annotations

from agent.core.entry.dependencies import add_dependencies
from agent.core.entry.resource_spec import ResourceSpec
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

_VALUE_TESTS = (Equals, Like, Matching, Contains, Within, Has)  # pass only for a word with a value
_ONE_VALUE_TYPES = frozenset(
    {ValueType.TEXT, ValueType.PATH, ValueType.INT, ValueType.BOOL}
)  # types whose operand is one value


def clause_implies(narrow: Clause, wide: Clause) -> bool:
    """Return whether `wide` matches everything that `narrow` matches."""
    return all(
        any(_statement_implies(narrow_line, wide_line) for narrow_line in narrow.lines) for wide_line in wide.lines
    )


def implies(kind: ValueType, narrow: Test, wide: Test) -> bool:
    """Return whether `wide` passes for every value for which `narrow` passes, for words of this type."""
    if narrow == wide:
        return True
    if isinstance(narrow, AnyTest):
        return all(implies(kind, part, wide) for part in narrow.tests)
    if isinstance(wide, AllTests):
        return all(implies(kind, narrow, part) for part in wide.tests)
    if isinstance(narrow, AllTests) and any(implies(kind, part, wide) for part in narrow.tests):
        return True
    if isinstance(wide, AnyTest):
        return any(implies(kind, narrow, part) for part in wide.tests)
    match narrow, wide:
        case Not(part), Not(other):
            return implies(kind, other, part)
        case Equals(operand), Equals(other):
            return is_equal(kind, operand, other)  # a class or address with more digits is narrower
        case Equals(operand), _ if kind in _ONE_VALUE_TYPES:
            return wide.evaluate(kind, operand, NO_FACTS, PLAIN) is True
        case (_, Exists(True)):
            is_some = isinstance(narrow, Items) and narrow.quantifier is not Quantifier.NONE
            return is_some or isinstance(narrow, _VALUE_TESTS)
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


def shadows(earlier: ResourceSpec, later: ResourceSpec) -> bool:
    """Return whether the earlier entry takes every device that the later entry could take. Only the selectors
    decide, because an entry keeps what it takes.

    Entries with `slots` take nothing from others. Entries with `group.parts` leave host devices that are not
    members.
    """
    if earlier.source != later.source or earlier.slots is not None or later.slots is not None:
        return False
    if earlier.group is not None and earlier.group.member_clauses:
        return False
    if not clause_implies(later.match, earlier.match):
        return False
    # The later entry can take what the earlier one excludes, unless the later one also excludes it.
    is_excluded = all(
        any(clause_implies(clause, later_clause) for later_clause in later.exclude) for clause in earlier.exclude
    )
    return is_excluded and _has_same_words(earlier, later)


def _has_same_words(earlier: ResourceSpec, later: ResourceSpec) -> bool:
    """Return whether the words in the selectors of the earlier entry mean the same in the later entry."""
    clause_words = {line.word for clause in (earlier.match, *earlier.exclude) for line in clause.walk_lines()}
    return add_dependencies(clause_words, earlier.derived_words) == add_dependencies(clause_words, later.derived_words)
