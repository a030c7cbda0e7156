import pytest

from agent.core.clause import AllOf, AnyOf, Equals, Exists, Has, Like, Not, holds
from agent.core.pattern import parse
from agent.core.value import Absent, Kind
from tests.core.building import clause, line

GONE = Absent("no such file")
TTY = Like((parse("tty*"), parse("cu*")))


@pytest.mark.parametrize(
    ("test", "kind", "value", "expected"),
    [
        (Equals("a"), Kind.TEXT, "a", True),
        (Equals("10de"), Kind.HEX, "010de", True),
        (Equals("a"), Kind.TEXT, GONE, False),
        (Equals("a"), Kind.TEXT, ("a",), False),
        (Equals("a"), Kind.TEXT, (), False),
        (TTY, Kind.TEXT, "cuau0", True),
        (TTY, Kind.TEXT, "x", False),
        (TTY, Kind.TEXT, GONE, False),
        (Like((parse("4?"),)), Kind.INT, 42, True),
        (Exists(True), Kind.TEXT, "", True),
        (Exists(True), Kind.TEXT, GONE, False),
        (Exists(True), Kind.TEXT, (), False),
        (Exists(True), Kind.BOOL, False, True),
        (Exists(False), Kind.TEXT, GONE, True),
        (Exists(False), Kind.TEXT, (), True),
        (Exists(False), Kind.TEXT, "x", False),
        (Has("b"), Kind.TEXT, ("a", "b"), True),
        (Has("c"), Kind.TEXT, ("a", "b"), False),
        (Has("a"), Kind.TEXT, "a", False),
        (Has("a"), Kind.TEXT, GONE, False),
        (Not(Equals("a")), Kind.TEXT, "b", True),
        (Not(Equals("a")), Kind.TEXT, "a", False),
        (Not(Equals("a")), Kind.TEXT, GONE, True),
        (Not(Has("a")), Kind.TEXT, GONE, True),
        (Not(Exists(True)), Kind.TEXT, GONE, True),
        (AnyOf((Equals("a"), TTY)), Kind.TEXT, "tty0", True),
        (AnyOf((Equals("a"), TTY)), Kind.TEXT, "b", False),
        (AnyOf((Equals("a"), TTY)), Kind.TEXT, GONE, False),
        (AnyOf((Equals("a"), Not(TTY))), Kind.TEXT, GONE, True),
        (AllOf((TTY, Not(Equals("tty0")))), Kind.TEXT, "tty1", True),
        (AllOf((TTY, Not(Equals("tty0")))), Kind.TEXT, "tty0", False),
        (AllOf((Not(TTY), Exists(True))), Kind.TEXT, GONE, False),
    ],
)
def test_what_holds_of_what(test, kind, value, expected):
    assert holds(test, kind, value) is expected


def test_all_lines_of_a_clause_hold_or_the_first_that_does_not_is_told():
    both = clause(line("vendor", "10de", Kind.HEX), line("driver", "nvidia"))
    facts = {"vendor": "10DE".lower(), "driver": "vfio-pci"}
    assert both.failing(facts.__getitem__) == (both.lines[1], "vfio-pci")
    facts["driver"] = "nvidia"
    assert both.failing(facts.__getitem__) is None
    assert both.failing(lambda word: GONE) == (both.lines[0], GONE)


def test_an_empty_clause_holds():
    assert clause().failing(lambda word: GONE) is None


def test_an_origin_is_quoted_as_people_do():
    assert str(clause().origin) == "10-test.toml:1"
