import pytest

from agent.core.language.clause import EitherLine
from agent.core.language.logic import CAREFUL, PLAIN, THREE_VALUED
from agent.core.language.operators import AllTests, Equals, Exists, Not, Quantifier, RelationItems
from agent.core.language.value import Absent, ValueType
from tests.core.builders import HERE, Known, clause, line

GONE = Absent("no such file")
PENDING = Absent("udev is not done", pending=True)


def test_all_lines_of_a_clause_hold_or_the_first_that_does_not_is_told():
    both = clause(line("vendor", "10de", ValueType.HEX), line("driver", "nvidia"))
    facts = {"vendor": "10de", "driver": "vfio-pci"}
    assert both.find_failed_line(Known(facts)) == (both.lines[1], "vfio-pci", None)
    facts["driver"] = "nvidia"
    assert both.find_failed_line(Known(facts)) is None
    assert both.find_failed_line(Known({})) == (both.lines[0], "absent (no such file)", None)


def test_an_empty_clause_holds():
    assert clause().find_failed_line(Known({})) is None
    assert clause().evaluate(Known({}), THREE_VALUED) is True


def test_a_line_that_fails_is_told_before_one_that_is_undecided():
    both = clause(line("a", "x"), line("b", "y"))
    assert both.find_failed_line(Known({"a": PENDING, "b": "y"})) == (
        both.lines[0],
        "absent (udev is not done)",
        PENDING,
    )
    assert both.find_failed_line(Known({"a": PENDING, "b": "z"})) == (both.lines[1], "z", None)
    assert both.find_failed_line(Known({"a": GONE, "b": "y"}), THREE_VALUED) == (
        both.lines[0],
        "absent (no such file)",
        GONE,
    )


def test_an_origin_is_quoted_as_people_do():
    assert str(clause().origin) == "10-test.toml:1"


CARD = clause(line("driver", "ice"), line("serial", None, test=Exists(True)), name="match.either.card")
CABLE = clause(line("link", "ether"), name="match.either.cable")
EITHER = EitherLine("match.either", (CARD, CABLE), "{ … }", HERE)


@pytest.mark.parametrize(
    ("facts", "verdict", "here"),
    [
        ({"driver": "ice", "serial": "1"}, True, None),
        ({"link": "ether"}, True, None),
        ({"driver": "ixgbe", "link": "loopback"}, False, "card: driver is ixgbe; cable: link is loopback"),
        ({"driver": "ice"}, False, "card: serial is absent (no such file); cable: link is absent (no such file)"),
        ({"driver": PENDING, "serial": "1"}, None, None),
    ],
)
def test_either_holds_if_an_alternative_does_and_tells_why_each_fails(facts, verdict, here):
    known = Known(facts)
    assert EITHER.evaluate(known, PLAIN) is verdict
    failed = clause(EITHER).find_failed_line(known)
    if verdict is None:
        assert failed.undecided_fact is PENDING
    elif not verdict:
        assert failed == (EITHER, here, None)


def ports(*states):
    things = tuple(Known({} if state is None else {"state": state}) for state in states)
    return Known({"ports": tuple(str(number) for number in range(1, len(states) + 1)), "things ports": things})


@pytest.mark.parametrize(
    ("of", "states", "here"),
    [
        (Quantifier.ANY, ("down", "init"), "1: state is down; 2: state is init"),
        (Quantifier.EVERY, ("active", "init"), "2: state is init"),
        (Quantifier.EVERY, ("a", "b", "c", "d", "e"), "1: state is a; 2: state is b; 3: state is c; and 2 more"),
        (Quantifier.NONE, ("down", "active", "active"), "2; 3"),
        (Quantifier.ANY, (), "empty"),
    ],
)
def test_of_several_things_those_are_told_that_speak_against_it(of, states, here):
    inner = clause(line("state", "active"), name="match.ports.any")
    test = AllTests((Exists(True), RelationItems(of, "ports", inner)))
    failed = clause(line("ports", None, test=test)).find_failed_line(ports(*states))
    assert failed.facts_text == here


@pytest.mark.parametrize(
    ("of", "states", "here"),
    [
        (Quantifier.ANY, ("down", "active"), "2"),
        (Quantifier.EVERY, ("active", "active"), "1; 2"),
        (Quantifier.NONE, ("down", "init"), "1: state is down; 2: state is init"),
        (Quantifier.NONE, (), "empty"),
    ],
)
def test_of_several_things_those_are_told_that_speak_for_it(of, states, here):
    asked = line("ports", None, test=RelationItems(of, "ports", clause(line("state", "active"))))
    assert asked.evaluate(ports(*states), PLAIN)
    assert asked.format_facts(ports(*states), PLAIN) == here


def test_of_an_either_that_holds_those_are_told_that_do():
    assert EITHER.format_facts(Known({"link": "ether"}), PLAIN) == "cable"


def test_what_could_not_be_read_inside_is_the_doubt():
    unread = Absent("EIO", unreadable=True)
    inner = clause(line("driver", "nvme"))
    asked = clause(line("ports", None, test=RelationItems(Quantifier.ANY, "ports", inner)))
    known = Known({"ports": ("1",), "things ports": (Known({"driver": unread}),)})
    assert asked.find_failed_line(known, CAREFUL).undecided_fact is unread
    assert asked.find_failed_line(known).undecided_fact is None
    other = clause(line("ports", None, test=Not(Equals("x"))), line("a", "b"))
    assert other.find_failed_line(Known({"ports": unread, "a": "b"}), CAREFUL).undecided_fact is unread
