"""Every operator over every form of value, in the three logics; and what the three have to do with each other."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.language.clause import Clause, Either, Line
from agent.core.language.logic import CAREFUL, PLAIN, THREE_VALUED
from agent.core.language.operators import (
    AllOf,
    AnyOf,
    Contains,
    Count,
    Equals,
    Exists,
    Has,
    Items,
    Like,
    Matching,
    Not,
    Of,
    Things,
    Within,
)
from agent.core.language.pattern import parse
from agent.core.language.value import Absent, Kind
from tests.core.building import HERE, Known, clause, line

GONE = Absent("no such file")
UNREAD = Absent("EIO", unread=True)
PENDING = Absent("udev is not done", pending=True)
TTY = Like((parse("tty*"), parse("cu*")))
DIGITS = Matching("[0-9]+", lambda text: re.fullmatch("[0-9]+", text) is not None)
SMALL = Within(((0, 3), (5, 5), (16, None)))


def ask(test, value, kind=Kind.TEXT, logic=PLAIN):
    return test.verdict(kind, value, Known({}), logic)


@pytest.mark.parametrize(
    ("test", "kind", "value", "expected"),
    [
        (Equals("a"), Kind.TEXT, "a", True),
        (Equals("10de"), Kind.HEX, "010de", True),
        (Equals("a"), Kind.TEXT, ("a",), False),
        (Equals("a"), Kind.TEXT, (), False),
        (TTY, Kind.TEXT, "cuau0", True),
        (TTY, Kind.TEXT, "x", False),
        (TTY, Kind.TEXT, ("tty0",), False),
        (Like((parse("4?"),)), Kind.INT, 42, True),
        (DIGITS, Kind.TEXT, "12", True),
        (DIGITS, Kind.TEXT, "12a", False),
        (DIGITS, Kind.TEXT, ("12",), False),
        (Contains("b"), Kind.TEXT, "abc", True),
        (Contains("B"), Kind.TEXT, "abc", False),
        (Contains("a"), Kind.TEXT, ("abc",), False),
        *((SMALL, Kind.INT, number, number in {0, 3, 5, 16, 99}) for number in (-1, 0, 3, 4, 5, 6, 15, 16, 99)),
        (SMALL, Kind.HEX, "000a", False),
        (SMALL, Kind.HEX, "0010", True),
        (SMALL, Kind.INT, (1,), False),
        (Within(((None, 3),)), Kind.INT, -7, True),
        (Within(((None, 3),)), Kind.INT, 4, False),
        (Exists(True), Kind.TEXT, "", True),
        (Exists(True), Kind.TEXT, (), False),
        (Exists(True), Kind.BOOL, False, True),
        (Exists(False), Kind.TEXT, (), True),
        (Exists(False), Kind.TEXT, "x", False),
        (Has("b"), Kind.TEXT, ("a", "b"), True),
        (Has("c"), Kind.TEXT, ("a", "b"), False),
        (Has("8086"), Kind.HEX, ("08086",), True),
        (Has("a"), Kind.TEXT, "a", False),
        (Not(Equals("a")), Kind.TEXT, "b", True),
        (Not(Equals("a")), Kind.TEXT, "a", False),
        (AnyOf((Equals("a"), TTY)), Kind.TEXT, "tty0", True),
        (AnyOf((Equals("a"), TTY)), Kind.TEXT, "b", False),
        (AllOf((TTY, Not(Equals("tty0")))), Kind.TEXT, "tty1", True),
        (AllOf((TTY, Not(Equals("tty0")))), Kind.TEXT, "tty0", False),
        (Items(Of.ANY, TTY), Kind.TEXT, ("a", "tty0"), True),
        (Items(Of.ANY, TTY), Kind.TEXT, ("a", "b"), False),
        (Items(Of.ANY, TTY), Kind.TEXT, (), False),
        (Items(Of.ANY, TTY), Kind.TEXT, "tty0", False),
        (Items(Of.EVERY, TTY), Kind.TEXT, ("tty1", "tty0"), True),
        (Items(Of.EVERY, TTY), Kind.TEXT, ("tty1", "a"), False),
        (Items(Of.EVERY, TTY), Kind.TEXT, (), False),
        (Items(Of.NONE, TTY), Kind.TEXT, ("a", "b"), True),
        (Items(Of.NONE, TTY), Kind.TEXT, ("a", "tty0"), False),
        (Items(Of.NONE, TTY), Kind.TEXT, (), True),
        (Count(Equals(2)), Kind.TEXT, ("a", "b"), True),
        (Count(Equals(2)), Kind.TEXT, ("a",), False),
        (Count(Equals(0)), Kind.TEXT, (), True),
        (Count(Equals(1)), Kind.TEXT, "a", False),
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
        (AnyOf((Equals("a"), TTY)), False, None, None),
        (AnyOf((Equals("a"), Not(TTY))), True, None, None),
        (AnyOf((Equals("a"), Exists(False))), True, None, True),
        (AllOf((Not(TTY), Exists(True))), False, None, False),
        (Items(Of.ANY, TTY), False, None, None),
        (Items(Of.EVERY, TTY), False, None, None),
        (Items(Of.NONE, TTY), True, None, True),
        (Not(Items(Of.NONE, TTY)), False, None, False),
        (Count(Equals(0)), True, None, True),
        (Count(Within(((1, None),))), False, None, False),
        (Exists(True), False, None, False),
        (Exists(False), True, None, True),
        (Things(Of.ANY, "ports", clause()), False, None, None),
        (Things(Of.NONE, "ports", clause()), True, None, True),
    ],
)
def test_what_holds_of_what_is_absent(test, plain, careful, health):
    known = Known({"things ports": UNREAD})
    assert test.verdict(Kind.TEXT, GONE, Known({}), PLAIN) is plain
    assert test.verdict(Kind.TEXT, UNREAD, known, CAREFUL) is careful
    assert test.verdict(Kind.TEXT, GONE, Known({}), THREE_VALUED) is health
    if not isinstance(test, Things):
        assert ask(test, GONE, logic=CAREFUL) is plain
        assert ask(test, UNREAD, logic=PLAIN) is plain
        assert [ask(test, PENDING, logic=logic) for logic in (PLAIN, CAREFUL, THREE_VALUED)] == [None] * 3


PORTS = Known({"ports": ("1", "2"), "things ports": (Known({"state": "active"}), Known({"state": "down"}))})
BLIND = Known({"ports": ("1", "2"), "things ports": (Known({"state": "active"}), Known({}))})


@pytest.mark.parametrize(
    ("of", "state", "known", "plain", "health"),
    [
        (Of.ANY, "active", PORTS, True, True),
        (Of.ANY, "init", PORTS, False, False),
        (Of.EVERY, "active", PORTS, False, False),
        (Of.NONE, "init", PORTS, True, True),
        (Of.NONE, "down", PORTS, False, False),
        (Of.ANY, "active", BLIND, True, True),
        (Of.ANY, "down", BLIND, False, None),
        (Of.EVERY, "active", BLIND, False, None),
        (Of.EVERY, "down", BLIND, False, False),
        (Of.NONE, "down", BLIND, True, None),
        (Of.NONE, "active", BLIND, False, False),
        (Of.ANY, "active", Known({"things ports": ()}), False, False),
        (Of.EVERY, "active", Known({"things ports": ()}), False, False),
        (Of.NONE, "active", Known({"things ports": ()}), True, True),
    ],
)
def test_a_clause_on_several_things(of, state, known, plain, health):
    test = Things(of, "ports", clause(line("state", state)))
    assert test.verdict(Kind.TEXT, (), known, PLAIN) is plain
    assert test.verdict(Kind.TEXT, (), known, THREE_VALUED) is health


# Clauses over a text, a number, a list and a many of things that have the first two.
TEXTS, NUMBERS = st.sampled_from("abc"), st.integers(0, 3)


def asking(operands, *others, presence):
    """Tests of one value."""
    leaves = st.one_of(operands.map(Equals), *others, *([st.booleans().map(Exists)] if presence else []))
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            inner.map(Not),
            st.lists(inner, min_size=1, max_size=2).map(lambda found: AnyOf(tuple(found))),
            st.lists(inner, min_size=1, max_size=2).map(lambda found: AllOf(tuple(found))),
        ),
        max_leaves=3,
    )


def lines(presence, *, things=True):
    ofs = st.sampled_from(list(Of) if presence else [Of.ANY, Of.EVERY])
    texts = asking(TEXTS, TEXTS.map(Contains), presence=presence)
    numbers = asking(NUMBERS, NUMBERS.map(lambda low: Within(((low, None),))), presence=presence)
    lists = [TEXTS.map(Has), st.builds(Items, ofs, texts)]
    if presence:
        lists += [numbers.map(Count), st.booleans().map(Exists)]
    found = [
        texts.map(lambda test: line("text", None, Kind.TEXT, test)),
        numbers.map(lambda test: line("number", None, Kind.INT, test)),
        st.one_of(lists).map(lambda test: line("list", None, Kind.TEXT, test)),
    ]
    if things:
        inner = st.lists(lines(presence, things=False), min_size=1, max_size=2).map(lambda found: clause(*found))
        found.append(st.builds(Things, ofs, st.just("many"), inner).map(lambda test: line("many", None, test=test)))
        found.append(st.lists(inner, min_size=1, max_size=2).map(lambda found: Either("e", tuple(found), "", HERE)))
    return st.one_of(found)


def clauses(*, presence):
    return st.lists(lines(presence), max_size=3).map(lambda found: clause(*found))


def known(*, whole):
    def maybe(values):
        return values if whole else st.one_of(st.just(GONE), values)

    flat = {"text": maybe(TEXTS), "number": maybe(NUMBERS), "list": maybe(st.lists(TEXTS, max_size=2).map(tuple))}
    things = maybe(st.lists(st.fixed_dictionaries(flat).map(Known), max_size=2).map(tuple))
    return st.fixed_dictionaries({**flat, "things many": things}).map(Known)


@given(clauses(presence=True), known(whole=True))
def test_where_nothing_is_absent_all_logics_say_the_same_and_are_decided(asked, facts):
    verdict = asked.verdict(facts, PLAIN)
    assert isinstance(verdict, bool)
    assert [asked.verdict(facts, logic) for logic in (CAREFUL, THREE_VALUED)] == [verdict] * 2


@given(clauses(presence=False), known(whole=False), st.data())
def test_what_is_decided_in_health_stays_so_whatever_absent_words_would_say(asked, facts, data):
    verdict = asked.verdict(facts, THREE_VALUED)
    if verdict is not None:
        filled = data.draw(known(whole=True))
        assert asked.verdict(facts.filled_from(filled), PLAIN) is verdict


@given(clauses(presence=True), known(whole=False))
def test_match_always_decides_if_nothing_is_still_to_come(asked, facts):
    assert isinstance(asked.verdict(facts, PLAIN), bool)


@given(clauses(presence=True), known(whole=False), st.sampled_from([PLAIN, CAREFUL, THREE_VALUED]))
def test_the_failing_line_is_none_where_the_clause_holds_and_has_a_doubt_where_it_is_undecided(asked, facts, logic):
    verdict = asked.verdict(facts, logic)
    failed = asked.failing(facts, logic)
    assert (failed is None) == (verdict is True)
    assert failed is None or (failed.doubt is None) == (verdict is False)


def test_equal_clauses_say_the_same_wherever_they_stand():
    one = Clause("match", (line("a", "x"), Line("match.b", "b", Kind.TEXT, TTY, "{…}", HERE)), HERE)
    two = Clause("match", (line("a", "x"), Line("exclude.b", "b", Kind.TEXT, TTY, "{ … }", HERE)), HERE)
    assert one == two
    assert one != Clause("match", two.lines[:1], HERE)
    assert Things(Of.ANY, "p", one) == Things(Of.ANY, "p", two)
    assert Matching("[0-9]+", str.isdigit) == DIGITS
