"""What a check says of a device at one look."""

import pytest

from agent.core.entry.check import REASON_LIMIT, Check, CheckResult, CheckVerdict, OnUnknown
from agent.core.entry.clause_check import ClauseCheck
from agent.core.entry.query import (
    ProgramQuery,
    QueryResult,
    QueryStatus,
    ServiceProtocol,
    SocketQuery,
)
from agent.core.entry.query_check import RunTemplate, SocketTemplate
from agent.core.language.operators import Equals, Items, Not, Quantifier
from agent.core.language.template import parse
from agent.core.language.value import ValueType
from agent.core.struct import replace
from tests.core.builders import Known, clause
from tests.core.builders import line as match_line


def line(word, operand, kind=ValueType.TEXT, test=None):
    return replace(match_line(word, operand, kind, test), address=f"health.link.holds.{word}")


HOLDS = clause(line("state", "ready"), name="health.link.holds")
REASON = parse("it says {state} at {heat} m°C, ports {ports}")


def bad(reason):
    return CheckResult(CheckVerdict.FAIL, reason)


@pytest.mark.parametrize(
    ("check", "facts", "outcome"),
    [
        (Check("link", ClauseCheck(HOLDS)), {"state": "ready"}, CheckResult(CheckVerdict.PASS)),
        (Check("link", ClauseCheck(HOLDS)), {"state": "error"}, bad("state = 'ready', here error")),
        (Check("link", ClauseCheck(HOLDS)), {}, bad("state = 'ready', here absent (no such file)")),
        (Check("link", ClauseCheck(HOLDS), on_unknown=OnUnknown.HEALTHY), {}, CheckResult(CheckVerdict.PASS)),
        (Check("link", ClauseCheck(HOLDS), on_unknown=OnUnknown.KEEP), {}, CheckResult(CheckVerdict.IGNORED)),
        (
            Check("link", ClauseCheck(HOLDS), on_unknown=OnUnknown.HEALTHY),
            {"state": "error"},
            bad("state = 'ready', here error"),
        ),
        (
            Check("link", ClauseCheck(HOLDS), reason=REASON),
            {"state": "error", "heat": 99000, "ports": ("up", "down")},
            bad("it says error at 99000 m°C, ports up, down"),
        ),
        (
            Check("link", ClauseCheck(HOLDS), reason=REASON),
            {"state": "error", "ports": ()},
            bad("it says error at ? m°C, ports ?"),
        ),
        (
            Check("link", ClauseCheck(HOLDS), reason=parse("it says {state|upper}")),
            {},
            bad("it says ? (no such file)"),
        ),
        # What an absent word could not change is known.
        (
            Check(
                "link",
                ClauseCheck(clause(line("state", "ready"), line("heat", 1, ValueType.INT), name="health.link.holds")),
            ),
            {"heat": 2},
            bad("heat = 1, here 2"),
        ),
        (
            Check(
                "link", ClauseCheck(clause(line("state", None, test=Not(Equals("error"))), name="health.link.holds"))
            ),
            {},
            bad("state = None, here absent (no such file)"),
        ),
        (
            Check("link", ClauseCheck(clause(line("ports", None, test=Items(Quantifier.NONE, Equals("down")))))),
            {"ports": ()},
            CheckResult(CheckVerdict.PASS),
        ),
        # Whether it applies.
        (
            Check("link", ClauseCheck(HOLDS), condition=clause(line("on", True, ValueType.BOOL))),
            {"on": False},
            CheckResult(CheckVerdict.NOT_APPLICABLE),
        ),
        (
            Check("link", ClauseCheck(HOLDS), condition=clause(line("on", True, ValueType.BOOL))),
            {},
            CheckResult(CheckVerdict.NOT_APPLICABLE),
        ),
        (
            Check("link", ClauseCheck(HOLDS), condition=clause(line("on", True, ValueType.BOOL))),
            {"on": True, "state": "error"},
            bad("state = 'ready', here error"),
        ),
    ],
)
def test_outcome(check, facts, outcome):
    assert check.evaluate(Known(facts)) == outcome


def test_what_a_device_says_of_itself_does_not_fill_the_log():
    said = Check("link", ClauseCheck(HOLDS)).evaluate(Known({"state": "x" * 4000})).reason
    assert len(said) == REASON_LIMIT
    assert said.endswith("…")


def test_which_checks_mean_the_same():
    one = Check("link", ClauseCheck(HOLDS))
    assert one == Check("link", ClauseCheck(clause(line("state", "ready"), name="health.other.holds")))
    others = [
        Check("other", ClauseCheck(HOLDS)),
        Check("link", ClauseCheck(clause(line("state", "up")))),
        Check("link", ClauseCheck(HOLDS), condition=clause()),
        Check("link", ClauseCheck(HOLDS), interval=1.0),
        Check("link", ClauseCheck(HOLDS), recovery_threshold=None),
        Check("link", ClauseCheck(HOLDS), on_unknown=OnUnknown.KEEP),
        Check("link", ClauseCheck(HOLDS), reason=REASON),
    ]
    assert len({one, *others}) == len(others) + 1


class Told(Known):
    """Of a thing of which others tell."""

    def __init__(self, facts, answer):
        super().__init__(facts)
        self.told = answer
        self.asked = []

    def get_query_result(self, inquiry):
        self.asked.append(inquiry)
        return self.told


RUN = RunTemplate((parse("/bin/x"), parse("-d={node}"), parse("{ports}")), timeout=2, interval=30)
FACTS = {"node": "/dev/a", "ports": ("up", "down"), "heat": 5}
COMMAND = ProgramQuery(("/bin/x", "-d=/dev/a", "up", "down"), 2, 30)


@pytest.mark.parametrize(
    ("answer", "policy", "reason", "outcome"),
    [
        (QueryResult(QueryStatus.HEALTHY, "", 7), "unhealthy", None, CheckResult(CheckVerdict.PASS, "", 7)),
        (
            QueryResult(QueryStatus.UNHEALTHY, "exit code 1", 7),
            "healthy",
            None,
            CheckResult(CheckVerdict.FAIL, "exit code 1", 7),
        ),
        (
            QueryResult(QueryStatus.UNHEALTHY, "exit code 1", 7),
            "keep",
            parse("at {heat}"),
            CheckResult(CheckVerdict.FAIL, "at 5 (exit code 1)", 7),
        ),
        (
            QueryResult(QueryStatus.UNHEALTHY, "", 7),
            "keep",
            parse("at {heat}"),
            CheckResult(CheckVerdict.FAIL, "at 5", 7),
        ),
        (
            QueryResult(QueryStatus.UNHEALTHY, "x" * 300, 7),
            "keep",
            None,
            CheckResult(CheckVerdict.FAIL, "x" * (REASON_LIMIT - 1) + "…", 7),
        ),
        (QueryResult(QueryStatus.UNKNOWN, "no end", 7), "unhealthy", None, CheckResult(CheckVerdict.FAIL, "no end", 7)),
        (QueryResult(QueryStatus.UNKNOWN, "no end", 7), "healthy", None, CheckResult(CheckVerdict.PASS, "", 7)),
        (QueryResult(QueryStatus.UNKNOWN, "no end", 7), "keep", None, CheckResult(CheckVerdict.IGNORED)),
        (
            QueryResult(QueryStatus.PENDING, "no answer yet"),
            "unhealthy",
            None,
            CheckResult(CheckVerdict.PENDING, "no answer yet"),
        ),
        (
            QueryResult(QueryStatus.PENDING, "no answer yet"),
            "healthy",
            None,
            CheckResult(CheckVerdict.IGNORED, "no answer yet"),
        ),
        (
            QueryResult(QueryStatus.PENDING, "no answer yet"),
            "keep",
            None,
            CheckResult(CheckVerdict.IGNORED, "no answer yet"),
        ),
        (
            QueryResult(QueryStatus.NOT_APPLICABLE, "no such program"),
            "unhealthy",
            None,
            CheckResult(CheckVerdict.NOT_APPLICABLE, "no such program"),
        ),
    ],
)
def test_what_others_tell(answer, policy, reason, outcome):
    facts = Told(FACTS, answer)
    assert Check("x", RUN, on_unknown=OnUnknown(policy), reason=reason).evaluate(facts) == outcome
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
    told = Told(facts, QueryResult(QueryStatus.HEALTHY))
    assert Check("x", RUN).evaluate(told) == bad(reason)
    assert Check("x", RUN, on_unknown=OnUnknown.HEALTHY).evaluate(told) == CheckResult(CheckVerdict.PASS)
    assert Check("x", RUN, on_unknown=OnUnknown.KEEP).evaluate(told) == CheckResult(CheckVerdict.IGNORED)
    assert told.asked == []


def test_a_socket_is_one_path():
    dial = SocketTemplate(parse("/run/{name}.sock"), timeout=2, interval=30)
    facts = Told({"name": "npu0"}, QueryResult(QueryStatus.HEALTHY, "", 3))
    assert Check("x", dial).evaluate(facts) == CheckResult(CheckVerdict.PASS, "", 3)
    assert facts.asked == [SocketQuery("/run/npu0.sock", 2, 30)]
    facts = Told({"name": "../x"}, QueryResult(QueryStatus.HEALTHY))
    assert Check("x", dial).evaluate(facts) == bad("name: '../x' cannot be in a path")
    assert facts.asked == []


def test_a_service_is_told_of_what_it_is_asked():
    dial = SocketTemplate(parse("/run/x"), 2, 30, parse("{address}"), ServiceProtocol.AMD_METRICS)
    facts = Told({"address": "0000:3b:00.0"}, QueryResult(QueryStatus.NOT_APPLICABLE, "there is none"))
    assert Check("x", dial).evaluate(facts) == CheckResult(CheckVerdict.NOT_APPLICABLE, "there is none")
    assert facts.asked == [SocketQuery("/run/x", 2, 30, "0000:3b:00.0", ServiceProtocol.AMD_METRICS)]
    assert Check("x", dial).evaluate(Told({}, QueryResult(QueryStatus.HEALTHY))).verdict is CheckVerdict.FAIL


def test_where_it_does_not_apply_nobody_is_asked():
    facts = Told({**FACTS, "state": "off"}, QueryResult(QueryStatus.UNHEALTHY))
    assert Check("x", RUN, condition=HOLDS).evaluate(facts) == CheckResult(CheckVerdict.NOT_APPLICABLE)
    assert facts.asked == []
