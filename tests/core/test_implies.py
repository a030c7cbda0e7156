"""Implication: told only where it is so, and told in the cases that people write."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.entry.shadowing import clause_implies, implies
from agent.core.language.clause import Clause, EitherLine
from agent.core.language.glob import parse
from agent.core.language.logic import PLAIN
from agent.core.language.operators import (
    AllTests,
    AnyTest,
    Contains,
    Equals,
    Exists,
    Has,
    ItemCount,
    Items,
    Like,
    Not,
    Quantifier,
    Within,
)
from agent.core.language.value import Absent, ValueType
from tests.core.builders import HERE, Known, clause
from tests.core.builders import line as said_of


def line(word, test):
    return said_of(word, "", test=test)


TTY = Like((parse("tty*"),))
LOW = Within(((0, 9),))


@pytest.mark.parametrize(
    ("kind", "narrow", "wide", "so"),
    [
        (ValueType.TEXT, Equals("a"), Equals("a"), True),
        (ValueType.TEXT, Equals("a"), Equals("b"), False),
        (ValueType.TEXT, Equals("a"), AnyTest((Equals("b"), Equals("a"))), True),
        (ValueType.TEXT, AnyTest((Equals("b"), Equals("a"))), Equals("a"), False),
        (ValueType.TEXT, AnyTest((Equals("tty0"), Equals("tty1"))), TTY, True),
        (ValueType.TEXT, AnyTest((Equals("tty0"), Equals("hvc0"))), TTY, False),
        (ValueType.TEXT, Equals("a"), Not(Equals("b")), True),
        (ValueType.TEXT, Not(TTY), Not(Equals("tty0")), True),
        (ValueType.TEXT, Not(Equals("tty0")), Not(TTY), False),
        (ValueType.TEXT, AllTests((TTY, Not(Equals("tty0")))), TTY, True),
        (ValueType.TEXT, TTY, AllTests((TTY, Not(Equals("tty0")))), False),
        (ValueType.TEXT, TTY, Exists(True), True),
        (ValueType.TEXT, Not(Equals("a")), Exists(True), False),
        (ValueType.TEXT, Items(Quantifier.NONE, Equals("a")), Exists(True), False),
        (ValueType.TEXT, Items(Quantifier.ANY, Equals("a")), Exists(True), True),
        (ValueType.TEXT, Has("a"), Exists(True), True),
        (ValueType.INT, Equals(3), LOW, True),
        (ValueType.INT, Equals(10), LOW, False),
        (ValueType.HEX, Equals("010de"), Equals("10de"), True),
        (ValueType.CLASS, Equals("0302"), Equals("03"), True),
        (ValueType.CLASS, Equals("03"), Equals("0302"), False),
        (ValueType.CLASS, Equals("03"), Not(Equals("0302")), False),
        (ValueType.PCI, Equals("0000:3b:00.1"), Equals("0000:3b:00"), True),
        (ValueType.PCI, Equals("0000:3b:00"), Equals("0000:3b:00.1"), False),
    ],
)
def test_one_test_implies_another(kind, narrow, wide, so):
    assert implies(kind, narrow, wide) is so


def test_a_clause_implies_one_with_fewer_lines_and_one_of_whose_alternatives_it_meets():
    both = clause(line("a", Equals("x")), line("b", Equals("y")))
    one = clause(line("b", Equals("y")))
    assert clause_implies(both, one)
    assert not clause_implies(one, both)
    assert clause_implies(one, clause())
    either = clause(EitherLine("either", (one, clause(line("c", Equals("z")))), "", HERE))
    assert clause_implies(both, either)
    assert not clause_implies(either, one)
    assert clause_implies(either, clause(EitherLine("either", (clause(line("c", Exists(True))), one), "", HERE)))
    assert not clause_implies(both, clause(line("c", Equals("y"))))


SCALARS = st.sampled_from(["", "a", "ab", "tty0", "10", "b"])
PLAIN_TESTS = st.one_of(
    st.builds(Equals, SCALARS),
    st.builds(lambda text: Like((parse(text),)), st.sampled_from(["a*", "tty?", "*", "ab"])),
    st.builds(Contains, st.sampled_from(["a", "t", "0"])),
    st.builds(Has, SCALARS),
    st.builds(Exists, st.booleans()),
)
TESTS = st.recursive(
    PLAIN_TESTS,
    lambda inner: st.one_of(
        st.builds(Not, inner),
        st.builds(AnyTest, st.lists(inner, min_size=1, max_size=2).map(tuple)),
        st.builds(AllTests, st.lists(inner, min_size=1, max_size=2).map(tuple)),
        st.builds(Items, st.sampled_from(Quantifier), inner),
        st.builds(ItemCount, st.just(Equals(1))),
    ),
    max_leaves=4,
)
VALUES = st.one_of(SCALARS, st.lists(SCALARS, max_size=2).map(tuple), st.just(Absent("no such file")))


@given(TESTS, TESTS, VALUES)
def test_what_is_told_is_so_of_every_value(narrow, wide, value):
    said = Known({"w": value})
    if implies(ValueType.TEXT, narrow, wide) and narrow.evaluate(ValueType.TEXT, value, said, PLAIN):
        assert wide.evaluate(ValueType.TEXT, value, said, PLAIN)


@given(st.lists(TESTS, max_size=2), st.lists(TESTS, max_size=2), VALUES, VALUES)
def test_what_is_told_of_clauses_is_so_of_every_thing(narrow, wide, one, other):
    said = Known({"a": one, "b": other})
    first, second = (Clause("", tuple(map(line, "ab", tests)), HERE) for tests in (narrow, wide))
    if clause_implies(first, second) and first.evaluate(said, PLAIN):
        assert second.evaluate(said, PLAIN)
