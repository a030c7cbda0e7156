"""Clauses: the lines of `match` and `exclude` as typed tests."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TypeVar

from agent.config.language import OPERATORS, hint, not_yet
from agent.config.scope import ANYTHING, Known, Scope
from agent.config.spot import Piece, Spot
from agent.config.tree import Branch, Leaf
from agent.core import pattern
from agent.core.clause import AllOf, AnyOf, Clause, Equals, Exists, Has, Like, Line, Not, Test
from agent.core.value import Kind, OperandError, Scalar, from_person

_T = TypeVar("_T")

_WORD_IN_OPERAND = re.compile(r"\{[A-Za-z_][A-Za-z0-9_.]*(?:\|[^{}]*)?\}")
_TEXT_KINDS = frozenset({Kind.TEXT, Kind.PATH})
_ID_KINDS = frozenset({Kind.HEX, Kind.CLASS, Kind.PCI})


def compile_clause(name: str, branch: Branch, scope: Scope) -> Clause:
    """A clause with the lines that could be compiled; `name` is its address (`match`, `exclude.kept`)."""
    lines: list[Line] = []
    for address, node in branch.members.items():
        if isinstance(node, Branch):
            scope.error(not_yet(node.spot, address, mark="key"))
        if not isinstance(node, Leaf):
            continue
        if "{" in address:
            scope.error(not_yet(node.spot, "a {word} in a path", mark="key"))
            continue
        known = scope.word(node.spot, address, "key")
        if known is None:
            continue
        test = _test(node.spot, node.value, known, scope)
        if test is not None:
            lines.append(
                Line(
                    address=f"{name}.{address}",
                    word=address,
                    kind=known.kind,
                    test=test,
                    written=node.spot.written,
                    origin=node.spot.origin,
                )
            )
    return Clause(name, tuple(lines), branch.spot.origin)


def _test(spot: Spot, value: object, known: Known, scope: Scope) -> Test | None:
    if isinstance(value, dict):
        return _operators(spot, value, known, scope)
    if isinstance(value, list):
        if not value:
            scope.error(spot.error("type", "an empty list holds of nothing", "write one value at least"))
            return None
        tests: list[Test | None] = [_test(spot.below(index), item, known, scope) for index, item in enumerate(value)]
        alternatives: list[Test] = _all(tests)
        return AnyOf(tuple(alternatives)) if alternatives else None
    if known.many:
        message = "a list: say { has = … }, or { exists = … }"
        scope.error(spot.error("type", message, f"write {{ has = {spot.written} }}"))
        return None
    operand = _operand(spot, value, known, scope)
    return None if operand is None else Equals(operand)


def _operators(spot: Spot, table: Mapping[str, object], known: Known, scope: Scope) -> Test | None:
    """Several operators in one table: all must hold."""
    tests: list[Test | None] = [_operator(spot.below(name), name, value, known, scope) for name, value in table.items()]
    made: list[Test] = _all(tests)
    if not made:
        if not table:
            scope.error(spot.error("type", "a test is missing here", 'write for example = "x"'))
        return None
    return made[0] if len(made) == 1 else AllOf(tuple(made))


def _operator(spot: Spot, name: str, value: object, known: Known, scope: Scope) -> Test | None:
    match name:
        case "not":
            inner = _test(spot, value, known, scope)
            return None if inner is None else Not(inner)
        case "exists":
            if isinstance(value, bool):
                return Exists(value)
            scope.error(spot.error("type", "exists is true or false, without quotes"))
            return None
        case "has":
            return _has(spot, value, known, scope)
        case "like":
            return _like(spot, value, known, scope)
    if name in OPERATORS:
        scope.error(not_yet(spot, f"the operator {name}", mark="key"))
    else:
        scope.error(spot.error("unknown-key", f"no operator has the name {name}", hint(name, OPERATORS), mark="key"))
    return None


def _has(spot: Spot, value: object, known: Known, scope: Scope) -> Test | None:
    if not known.many and known is not ANYTHING:
        message = "has is for lists, and this is one value"
        scope.error(spot.error("type", message, f"write = {spot.written}", mark="key"))
        return None
    if isinstance(value, (list, dict)):
        scope.error(spot.error("type", "has is for one value; has_any and has_all come later"))
        return None
    operand = _operand(spot, value, known, scope)
    return None if operand is None else Has(operand)


def _like(spot: Spot, value: object, known: Known, scope: Scope) -> Test | None:
    if known.many or known.kind not in _TEXT_KINDS:
        what = "a list" if known.many else known.kind.value
        scope.error(spot.error("type", f"like is for text, and this is {what}", mark="key"))
        return None
    items = value if isinstance(value, list) else [value]
    spots = [spot.below(index) for index in range(len(items))] if isinstance(value, list) else [spot]
    if not items:
        scope.error(spot.error("type", "an empty list holds of nothing", "write one pattern at least"))
    patterns = [pattern_of(here, item, scope) for here, item in zip(spots, items, strict=True)]
    return Like(tuple(made)) if (made := _all(patterns)) else None


def pattern_of(spot: Spot, value: object, scope: Scope) -> pattern.Pattern | None:
    """The glob that a value is; none, with a finding, if it is none."""
    if not isinstance(value, str):
        scope.error(spot.error("type", "a pattern is text", f'write "{spot.written}"'))
        return None
    if _refused_word(spot, value, scope):
        return None
    try:
        return pattern.parse(value)
    except pattern.PatternError as error:
        scope.error(spot.error("glob", error.message, error.write, mark=Piece(error.at, error.length)))
        return None


def _operand(spot: Spot, value: object, known: Known, scope: Scope) -> Scalar | None:
    if isinstance(value, str) and _refused_word(spot, value, scope):
        return None
    if known is ANYTHING:
        return value if isinstance(value, (str, int, bool)) else None
    try:
        return from_person(known.kind, value)
    except OperandError as error:
        write = error.write
        if not write and known.kind in _TEXT_KINDS and isinstance(value, (int, float)):
            write = f'write "{spot.written}"'
        scope.error(spot.error("hex-id" if known.kind in _ID_KINDS else "type", error.message, write))
        return None


def _refused_word(spot: Spot, value: str, scope: Scope) -> bool:
    """Whether an operand has a `{word}` in it, which is reported: two words cannot be compared here."""
    found = _WORD_IN_OPERAND.search(value)
    if found is None:
        return False
    message = f"a test compares with what is written, and {found[0]} is a word"
    mark = Piece(found.start(), len(found[0]))
    scope.error(spot.error("text", message, "compare two words by a join's on", mark=mark))
    return True


def _all(items: Sequence[_T | None]) -> list[_T]:
    """The items if none is missing; else nothing."""
    made = [item for item in items if item is not None]
    return made if len(made) == len(items) else []
