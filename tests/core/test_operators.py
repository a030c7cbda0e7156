"""Every operator over every form of value, in the three logics; and what the three have to do with each other."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.language.clause import Clause, ClauseLine, EitherLine
from agent.core.language.glob import parse
from agent.core.language.logic import CAREFUL, PLAIN, THREE_VALUED
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
    Matching,
    Not,
    Quantifier,
    RelationItems,
    Within,
)
from agent.core.language.value import Absent, ValueType
from tests.core.builders import HERE, Known, clause, line

GONE = Absent("no such file")
UNREAD = Absent("EIO", unreadable=True)
PENDING = Absent("udev is not done", pending=True)
TTY = Like((parse("tty*"), parse("cu*")))
DIGITS = Matching("[0-9]+", lambda text: re.fullmatch("[0-9]+", text) is not None)
SMALL = Within(((0, 3), (5, 5), (16, None)))


def ask(test, value, kind=ValueType.TEXT, logic=PLAIN):
    return test.evaluate(kind, value, Known({}), logic)


@pytest.mark.parametrize(
    ("test", "kind", "value", "expected"),
    [
        (Equals("a"), ValueType.TEXT, "a", True),
        (Equals("10de"), ValueType.HEX, "010de", True),
        (Equals("a"), ValueType.TEXT, ("a",), False),
        (Equals("a"), ValueType.TEXT, (), False),
        (TTY, ValueType.TEXT, "cuau0", True),
        (TTY, ValueType.TEXT, "x", False),
        (TTY, ValueType.TEXT, ("tty0",), False),
        (Like((parse("4?"),)), ValueType.INT, 42, True),
        (DIGITS, ValueType.TEXT, "12", True),
        (DIGITS, ValueType.TEXT, "12a", False),
        (DIGITS, ValueType.TEXT, ("12",), False),
        (Contains("b"), ValueType.TEXT, "abc", True),
        (Contains("B"), ValueType.TEXT, "abc", False),
        (Contains("a"), ValueType.TEXT, ("abc",), False),
        *((SMALL, ValueType.INT, number, number in {0, 3, 5, 16, 99}) for number in (-1, 0, 3, 4, 5, 6, 15, 16, 99)),
        (SMALL, ValueType.HEX, "000a", False),
        (SMALL, ValueType.HEX, "0010", True),
        (SMALL, ValueType.INT, (1,), False),
        (Within(((None, 3),)), ValueType.INT, -7, True),
        (Within(((None, 3),)), ValueType.INT, 4, False),
        (Exists(True), ValueType.TEXT, "", True),
        (Exists(True), ValueType.TEXT, (), False),
        (Exists(True), ValueType.BOOL, False, True),
        (Exists(False), ValueType.TEXT, (), True),
        (Exists(False), ValueType.TEXT, "x", False),
        (Has("b"), ValueType.TEXT, ("a", "b"), True),
        (Has("c"), ValueType.TEXT, ("a", "b"), False),
        (Has("8086"), ValueType.HEX, ("08086",), True),
        (Has("a"), ValueType.TEXT, "a", False),
        (Not(Equals("a")), ValueType.TEXT, "b", True),
        (Not(Equals("a")), ValueType.TEXT, "a", False),
        (AnyTest((Equals("a"), TTY)), ValueType.TEXT, "tty0", True),
        (AnyTest((Equals("a"), TTY)), ValueType.TEXT, "b", False),
        (AllTests((TTY, Not(Equals("tty0")))), ValueType.TEXT, "tty1", True),
        (AllTests((TTY, Not(Equals("tty0")))), ValueType.TEXT, "tty0", False),
        (Items(Quantifier.ANY, TTY), ValueType.TEXT, ("a", "tty0"), True),
        (Items(Quantifier.ANY, TTY), ValueType.TEXT, ("a", "b"), False),
        (Items(Quantifier.ANY, TTY), ValueType.TEXT, (), False),
        (Items(Quantifier.ANY, TTY), ValueType.TEXT, "tty0", False),
        (Items(Quantifier.EVERY, TTY), ValueType.TEXT, ("tty1", "tty0"), True),
        (Items(Quantifier.EVERY, TTY), ValueType.TEXT, ("tty1", "a"), False),
        (Items(Quantifier.EVERY, TTY), ValueType.TEXT, (), False),
        (Items(Quantifier.NONE, TTY), ValueType.TEXT, ("a", "b"), True),
        (Items(Quantifier.NONE, TTY), ValueType.TEXT, ("a", "tty0"), False),
        (Items(Quantifier.NONE, TTY), ValueType.TEXT, (), True),
        (ItemCount(Equals(2)), ValueType.TEXT, ("a", "b"), True),
        (ItemCount(Equals(2)), ValueType.TEXT, ("a",), False),
        (ItemCount(Equals(0)), ValueType.TEXT, (), True),
        (ItemCount(Equals(1)), ValueType.TEXT, "a", False),
    ],
)
def test_what_holds_of_what_is_there(test, kind, value, expected):
    assert [ask(test, value, kind, logic) for logic in (PLAIN, CAREFUL, THREE_VALUED)] == [expected] * 3


# Of an absent word: in match and wait, in exclude where it could not be read, in health.
@pytest.mark.parametrize(
    ("test", "plain", "careful", "health"),
    [
        *((test, False, None, None) for test in (Equals("a"), TTY, DIGITS, Contains("a"), SMALL, Has("a"))),
        *((Not(test), True, None, None) for test in (Equals("a"), TTY, DIGITS, Contains("a"), SMALL, Has("a"))),
        (AnyTest((Equals("a"), TTY)), False, None, None),
        (AnyTest((Equals("a"), Not(TTY))), True, None, None),
        (AnyTest((Equals("a"), Exists(False))), True, None, True),
        (AllTests((Not(TTY), Exists(True))), False, None, False),
        (Items(Quantifier.ANY, TTY), False, None, None),
        (Items(Quantifier.EVERY, TTY), False, None, None),
        (Items(Quantifier.NONE, TTY), True, None, True),
        (Not(Items(Quantifier.NONE, TTY)), False, None, False),
        (ItemCount(Equals(0)), True, None, True),
        (ItemCount(Within(((1, None),))), False, None, False),
        (Exists(True), False, None, False),
        (Exists(False), True, None, True),
        (RelationItems(Quantifier.ANY, "ports", clause()), False, None, None),
        (RelationItems(Quantifier.NONE, "ports", clause()), True, None, True),
    ],
)
def test_what_holds_of_what_is_absent(test, plain, careful, health):
    known = Known({"things ports": UNREAD})
    assert test.evaluate(ValueType.TEXT, GONE, Known({}), PLAIN) is plain
    assert test.evaluate(ValueType.TEXT, UNREAD, known, CAREFUL) is careful
    assert test.evaluate(ValueType.TEXT, GONE, Known({}), THREE_VALUED) is health
    if not isinstance(test, RelationItems):
        assert ask(test, GONE, logic=CAREFUL) is plain
        assert ask(test, UNREAD, logic=PLAIN) is plain
        assert [ask(test, PENDING, logic=logic) for logic in (PLAIN, CAREFUL, THREE_VALUED)] == [None] * 3


PORTS = Known({"ports": ("1", "2"), "things ports": (Known({"state": "active"}), Known({"state": "down"}))})
BLIND = Known({"ports": ("1", "2"), "things ports": (Known({"state": "active"}), Known({}))})


@pytest.mark.parametrize(
    ("of", "state", "known", "plain", "health"),
    [
        (Quantifier.ANY, "active", PORTS, True, True),
        (Quantifier.ANY, "init", PORTS, False, False),
        (Quantifier.EVERY, "active", PORTS, False, False),
        (Quantifier.NONE, "init", PORTS, True, True),
        (Quantifier.NONE, "down", PORTS, False, False),
        (Quantifier.ANY, "active", BLIND, True, True),
        (Quantifier.ANY, "down", BLIND, False, None),
        (Quantifier.EVERY, "active", BLIND, False, None),
        (Quantifier.EVERY, "down", BLIND, False, False),
        (Quantifier.NONE, "down", BLIND, True, None),
        (Quantifier.NONE, "active", BLIND, False, False),
        (Quantifier.ANY, "active", Known({"things ports": ()}), False, False),
        (Quantifier.EVERY, "active", Known({"things ports": ()}), False, False),
        (Quantifier.NONE, "active", Known({"things ports": ()}), True, True),
    ],
)
def test_a_clause_on_several_things(of, state, known, plain, health):
    test = RelationItems(of, "ports", clause(line("state", state)))
    assert test.evaluate(ValueType.TEXT, (), known, PLAIN) is plain
    assert test.evaluate(ValueType.TEXT, (), known, THREE_VALUED) is health


# Clauses over a text, a number, a list and a many of things that have the first two.
TEXTS, NUMBERS = st.sampled_from("abc"), st.integers(0, 3)


def draw_tests(operands, *others, presence):
    """Tests of one value."""
    leaves = st.one_of(operands.map(Equals), *others, *([st.booleans().map(Exists)] if presence else []))
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            inner.map(Not),
            st.lists(inner, min_size=1, max_size=2).map(lambda found: AnyTest(tuple(found))),
            st.lists(inner, min_size=1, max_size=2).map(lambda found: AllTests(tuple(found))),
        ),
        max_leaves=3,
    )


def lines(presence, *, things=True):
    ofs = st.sampled_from(list(Quantifier) if presence else [Quantifier.ANY, Quantifier.EVERY])
    texts = draw_tests(TEXTS, TEXTS.map(Contains), presence=presence)
    numbers = draw_tests(NUMBERS, NUMBERS.map(lambda low: Within(((low, None),))), presence=presence)
    lists = [TEXTS.map(Has), st.builds(Items, ofs, texts)]
    if presence:
        lists += [numbers.map(ItemCount), st.booleans().map(Exists)]
    found = [
        texts.map(lambda test: line("text", None, ValueType.TEXT, test)),
        numbers.map(lambda test: line("number", None, ValueType.INT, test)),
        st.one_of(lists).map(lambda test: line("list", None, ValueType.TEXT, test)),
    ]
    if things:
        inner = st.lists(lines(presence, things=False), min_size=1, max_size=2).map(lambda found: clause(*found))
        found.append(
            st.builds(RelationItems, ofs, st.just("many"), inner).map(lambda test: line("many", None, test=test))
        )
        found.append(st.lists(inner, min_size=1, max_size=2).map(lambda found: EitherLine("e", tuple(found), "", HERE)))
    return st.one_of(found)


def clauses(*, presence):
    return st.lists(lines(presence), max_size=3).map(lambda found: clause(*found))


def draw_facts(*, whole):
    def maybe(values):
        return values if whole else st.one_of(st.just(GONE), values)

    flat = {"text": maybe(TEXTS), "number": maybe(NUMBERS), "list": maybe(st.lists(TEXTS, max_size=2).map(tuple))}
    things = maybe(st.lists(st.fixed_dictionaries(flat).map(Known), max_size=2).map(tuple))
    return st.fixed_dictionaries({**flat, "things many": things}).map(Known)


@given(clauses(presence=True), draw_facts(whole=True))
def test_where_nothing_is_absent_all_logics_say_the_same_and_are_decided(asked, facts):
    verdict = asked.evaluate(facts, PLAIN)
    assert isinstance(verdict, bool)
    assert [asked.evaluate(facts, logic) for logic in (CAREFUL, THREE_VALUED)] == [verdict] * 2


@given(clauses(presence=False), draw_facts(whole=False), st.data())
def test_what_is_decided_in_health_stays_so_whatever_absent_words_would_say(asked, facts, data):
    verdict = asked.evaluate(facts, THREE_VALUED)
    if verdict is not None:
        filled = data.draw(draw_facts(whole=True))
        assert asked.evaluate(facts.filled_from(filled), PLAIN) is verdict


@given(clauses(presence=True), draw_facts(whole=False))
def test_match_always_decides_if_nothing_is_still_to_come(asked, facts):
    assert isinstance(asked.evaluate(facts, PLAIN), bool)


@given(clauses(presence=True), draw_facts(whole=False), st.sampled_from([PLAIN, CAREFUL, THREE_VALUED]))
def test_the_failing_line_is_none_where_the_clause_holds_and_has_a_doubt_where_it_is_undecided(asked, facts, logic):
    verdict = asked.evaluate(facts, logic)
    failed = asked.find_failed_line(facts, logic)
    assert (failed is None) == (verdict is True)
    assert failed is None or (failed.undecided_fact is None) == (verdict is False)


def test_equal_clauses_say_the_same_wherever_they_stand():
    one = Clause("match", (line("a", "x"), ClauseLine("match.b", "b", ValueType.TEXT, TTY, "{…}", HERE)), HERE)
    two = Clause("match", (line("a", "x"), ClauseLine("exclude.b", "b", ValueType.TEXT, TTY, "{ … }", HERE)), HERE)
    assert one == two
    assert one != Clause("match", two.lines[:1], HERE)
    assert RelationItems(Quantifier.ANY, "p", one) == RelationItems(Quantifier.ANY, "p", two)
    assert Matching("[0-9]+", str.isdigit) == DIGITS
