"""What a check says of a device at one look."""

import pytest

from agent.core.entry.check import SHOWN, Check, CheckResult, CheckVerdict, OnUnknown
from agent.core.entry.query import (
    ProgramQuery,
    QueryResult,
    QueryStatus,
    RunTemplate,
    ServiceProtocol,
    SocketQuery,
    SocketTemplate,
)
from agent.core.language.operators import Equals, Items, Not, Quantifier
from agent.core.language.template import parse
from agent.core.language.value import ValueType
from agent.core.struct import replace
from tests.core.building import Known, clause
from tests.core.building import line as match_line


def line(word, operand, kind=ValueType.TEXT, test=None):
    return replace(match_line(word, operand, kind, test), address=f"health.link.holds.{word}")


HOLDS = clause(line("state", "ready"), name="health.link.holds")
REASON = parse("it says {state} at {heat} m°C, ports {ports}")


def bad(reason):
    return CheckResult(CheckVerdict.BAD, reason)


@pytest.mark.parametrize(
    ("check", "facts", "outcome"),
    [
        (Check("link", HOLDS), {"state": "ready"}, CheckResult(CheckVerdict.GOOD)),
        (Check("link", HOLDS), {"state": "error"}, bad("state = 'ready', here error")),
        (Check("link", HOLDS), {}, bad("state = 'ready', here absent (no such file)")),
        (Check("link", HOLDS, on_unknown=OnUnknown.HEALTHY), {}, CheckResult(CheckVerdict.GOOD)),
        (Check("link", HOLDS, on_unknown=OnUnknown.KEEP), {}, CheckResult(CheckVerdict.NOTHING)),
        (Check("link", HOLDS, on_unknown=OnUnknown.HEALTHY), {"state": "error"}, bad("state = 'ready', here error")),
        (
            Check("link", HOLDS, reason=REASON),
            {"state": "error", "heat": 99000, "ports": ("up", "down")},
            bad("it says error at 99000 m°C, ports up, down"),
        ),
        (
            Check("link", HOLDS, reason=REASON),
            {"state": "error", "ports": ()},
            bad("it says error at ? m°C, ports ?"),
        ),
        (
            Check("link", HOLDS, reason=parse("it says {state|upper}")),
            {},
            bad("it says ? (no such file)"),
        ),
        # What an absent word could not change is known.
        (
            Check("link", clause(line("state", "ready"), line("heat", 1, ValueType.INT), name="health.link.holds")),
            {"heat": 2},
            bad("heat = 1, here 2"),
        ),
        (
            Check("link", clause(line("state", None, test=Not(Equals("error"))), name="health.link.holds")),
            {},
            bad("state = None, here absent (no such file)"),
        ),
        (
            Check("link", clause(line("ports", None, test=Items(Quantifier.NONE, Equals("down"))))),
            {"ports": ()},
            CheckResult(CheckVerdict.GOOD),
        ),
        # Whether it applies.
        (
            Check("link", HOLDS, when=clause(line("on", True, ValueType.BOOL))),
            {"on": False},
            CheckResult(CheckVerdict.BESIDE),
        ),
        (Check("link", HOLDS, when=clause(line("on", True, ValueType.BOOL))), {}, CheckResult(CheckVerdict.BESIDE)),
        (
            Check("link", HOLDS, when=clause(line("on", True, ValueType.BOOL))),
            {"on": True, "state": "error"},
            bad("state = 'ready', here error"),
        ),
    ],
)
def test_outcome(check, facts, outcome):
    assert check.ask(Known(facts)) == outcome


def test_what_a_device_says_of_itself_does_not_fill_the_log():
    said = Check("link", HOLDS).ask(Known({"state": "x" * 4000})).reason
    assert len(said) == SHOWN
    assert said.endswith("…")


def test_which_checks_mean_the_same():
    one = Check("link", HOLDS)
    assert one == Check("link", clause(line("state", "ready"), name="health.other.holds"))
    others = [
        Check("other", HOLDS),
        Check("link", clause(line("state", "up"))),
        Check("link", HOLDS, when=clause()),
        Check("link", HOLDS, every=1.0),
        Check("link", HOLDS, recover=None),
        Check("link", HOLDS, on_unknown=OnUnknown.KEEP),
        Check("link", HOLDS, reason=REASON),
    ]
    assert len({one, *others}) == len(others) + 1


class Told(Known):
    """Of a thing of which others tell."""

    def __init__(self, facts, answer):
        super().__init__(facts)
        self.told = answer
        self.asked = []

    def answer(self, inquiry):
        self.asked.append(inquiry)
        return self.told


RUN = RunTemplate((parse("/bin/x"), parse("-d={node}"), parse("{ports}")), timeout=2, every=30)
FACTS = {"node": "/dev/a", "ports": ("up", "down"), "heat": 5}
COMMAND = ProgramQuery(("/bin/x", "-d=/dev/a", "up", "down"), 2, 30)


@pytest.mark.parametrize(
    ("answer", "policy", "reason", "outcome"),
    [
        (QueryResult(QueryStatus.WELL, "", 7), "unhealthy", None, CheckResult(CheckVerdict.GOOD, "", 7)),
        (
            QueryResult(QueryStatus.ILL, "exit code 1", 7),
            "healthy",
            None,
            CheckResult(CheckVerdict.BAD, "exit code 1", 7),
        ),
        (
            QueryResult(QueryStatus.ILL, "exit code 1", 7),
            "keep",
            parse("at {heat}"),
            CheckResult(CheckVerdict.BAD, "at 5 (exit code 1)", 7),
        ),
        (QueryResult(QueryStatus.ILL, "", 7), "keep", parse("at {heat}"), CheckResult(CheckVerdict.BAD, "at 5", 7)),
        (
            QueryResult(QueryStatus.ILL, "x" * 300, 7),
            "keep",
            None,
            CheckResult(CheckVerdict.BAD, "x" * (SHOWN - 1) + "…", 7),
        ),
        (QueryResult(QueryStatus.UNKNOWN, "no end", 7), "unhealthy", None, CheckResult(CheckVerdict.BAD, "no end", 7)),
        (QueryResult(QueryStatus.UNKNOWN, "no end", 7), "healthy", None, CheckResult(CheckVerdict.GOOD, "", 7)),
        (QueryResult(QueryStatus.UNKNOWN, "no end", 7), "keep", None, CheckResult(CheckVerdict.NOTHING)),
        (
            QueryResult(QueryStatus.AWAITED, "no answer yet"),
            "unhealthy",
            None,
            CheckResult(CheckVerdict.AWAITED, "no answer yet"),
        ),
        (
            QueryResult(QueryStatus.AWAITED, "no answer yet"),
            "healthy",
            None,
            CheckResult(CheckVerdict.NOTHING, "no answer yet"),
        ),
        (
            QueryResult(QueryStatus.AWAITED, "no answer yet"),
            "keep",
            None,
            CheckResult(CheckVerdict.NOTHING, "no answer yet"),
        ),
        (
            QueryResult(QueryStatus.OFF, "no such program"),
            "unhealthy",
            None,
            CheckResult(CheckVerdict.BESIDE, "no such program"),
        ),
    ],
)
def test_what_others_tell(answer, policy, reason, outcome):
    facts = Told(FACTS, answer)
    assert Check("x", RUN, on_unknown=OnUnknown(policy), reason=reason).ask(facts) == outcome
    assert facts.asked == [COMMAND]


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        ({}, "node: no such file"),
        ({"node": "/dev/a", "ports": ()}, "ports is empty"),
        ({"node": "/dev/a\nb", "ports": ("up",)}, "-d={node}: '-d=/dev/a\\nb' cannot be an argument"),
        ({"node": "/dev/a", "ports": ("-rf",)}, "{ports}: '-rf' would be an option"),
        ({"node": "/dev/a", "ports": ("a\0b",)}, "{ports}: 'a\\x00b' cannot be an argument"),
    ],
)
def test_what_cannot_be_asked_is_not(facts, reason):
    told = Told(facts, QueryResult(QueryStatus.WELL))
    assert Check("x", RUN).ask(told) == bad(reason)
    assert Check("x", RUN, on_unknown=OnUnknown.HEALTHY).ask(told) == CheckResult(CheckVerdict.GOOD)
    assert Check("x", RUN, on_unknown=OnUnknown.KEEP).ask(told) == CheckResult(CheckVerdict.NOTHING)
    assert told.asked == []


def test_a_socket_is_one_path():
    dial = SocketTemplate(parse("/run/{name}.sock"), timeout=2, every=30)
    facts = Told({"name": "npu0"}, QueryResult(QueryStatus.WELL, "", 3))
    assert Check("x", dial).ask(facts) == CheckResult(CheckVerdict.GOOD, "", 3)
    assert facts.asked == [SocketQuery("/run/npu0.sock", 2, 30)]
    facts = Told({"name": "../x"}, QueryResult(QueryStatus.WELL))
    assert Check("x", dial).ask(facts) == bad("name: '../x' cannot be in a path")
    assert facts.asked == []


def test_a_service_is_told_of_what_it_is_asked():
    dial = SocketTemplate(parse("/run/x"), 2, 30, parse("{address}"), ServiceProtocol.AMD_METRICS)
    facts = Told({"address": "0000:3b:00.0"}, QueryResult(QueryStatus.OFF, "there is none"))
    assert Check("x", dial).ask(facts) == CheckResult(CheckVerdict.BESIDE, "there is none")
    assert facts.asked == [SocketQuery("/run/x", 2, 30, "0000:3b:00.0", ServiceProtocol.AMD_METRICS)]
    assert Check("x", dial).ask(Told({}, QueryResult(QueryStatus.WELL))).says is CheckVerdict.BAD


def test_where_it_does_not_apply_nobody_is_asked():
    facts = Told({**FACTS, "state": "off"}, QueryResult(QueryStatus.ILL))
    assert Check("x", RUN, when=HOLDS).ask(facts) == CheckResult(CheckVerdict.BESIDE)
    assert facts.asked == []
