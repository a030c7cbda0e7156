"""What a check says of a device at one look."""

import pytest

from agent.core.entry.check import SHOWN, Check, OnUnknown, Outcome, Says
from agent.core.entry.inquiry import Answer, Command, Dial, Reply, Run, Service, Speaks
from agent.core.language.operators import Equals, Items, Not, Of
from agent.core.language.text import parse
from agent.core.language.value import Kind
from agent.core.struct import replace
from tests.core.building import Known, clause
from tests.core.building import line as match_line


def line(word, operand, kind=Kind.TEXT, test=None):
    return replace(match_line(word, operand, kind, test), address=f"health.link.holds.{word}")


HOLDS = clause(line("state", "ready"), name="health.link.holds")
REASON = parse("it says {state} at {heat} m°C, ports {ports}")


def bad(reason):
    return Outcome(Says.BAD, reason)


@pytest.mark.parametrize(
    ("check", "facts", "outcome"),
    [
        (Check("link", HOLDS), {"state": "ready"}, Outcome(Says.GOOD)),
        (Check("link", HOLDS), {"state": "error"}, bad("state = 'ready', here error")),
        (Check("link", HOLDS), {}, bad("state = 'ready', here absent (no such file)")),
        (Check("link", HOLDS, on_unknown=OnUnknown.HEALTHY), {}, Outcome(Says.GOOD)),
        (Check("link", HOLDS, on_unknown=OnUnknown.KEEP), {}, Outcome(Says.NOTHING)),
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
            Check("link", clause(line("state", "ready"), line("heat", 1, Kind.INT), name="health.link.holds")),
            {"heat": 2},
            bad("heat = 1, here 2"),
        ),
        (
            Check("link", clause(line("state", None, test=Not(Equals("error"))), name="health.link.holds")),
            {},
            bad("state = None, here absent (no such file)"),
        ),
        (
            Check("link", clause(line("ports", None, test=Items(Of.NONE, Equals("down"))))),
            {"ports": ()},
            Outcome(Says.GOOD),
        ),
        # Whether it applies.
        (Check("link", HOLDS, when=clause(line("on", True, Kind.BOOL))), {"on": False}, Outcome(Says.BESIDE)),
        (Check("link", HOLDS, when=clause(line("on", True, Kind.BOOL))), {}, Outcome(Says.BESIDE)),
        (
            Check("link", HOLDS, when=clause(line("on", True, Kind.BOOL))),
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


RUN = Run((parse("/bin/x"), parse("-d={node}"), parse("{ports}")), timeout=2, every=30)
FACTS = {"node": "/dev/a", "ports": ("up", "down"), "heat": 5}
COMMAND = Command(("/bin/x", "-d=/dev/a", "up", "down"), 2, 30)


@pytest.mark.parametrize(
    ("answer", "policy", "reason", "outcome"),
    [
        (Answer(Reply.WELL, "", 7), "unhealthy", None, Outcome(Says.GOOD, "", 7)),
        (Answer(Reply.ILL, "exit code 1", 7), "healthy", None, Outcome(Says.BAD, "exit code 1", 7)),
        (Answer(Reply.ILL, "exit code 1", 7), "keep", parse("at {heat}"), Outcome(Says.BAD, "at 5 (exit code 1)", 7)),
        (Answer(Reply.ILL, "", 7), "keep", parse("at {heat}"), Outcome(Says.BAD, "at 5", 7)),
        (Answer(Reply.ILL, "x" * 300, 7), "keep", None, Outcome(Says.BAD, "x" * (SHOWN - 1) + "…", 7)),
        (Answer(Reply.UNKNOWN, "no end", 7), "unhealthy", None, Outcome(Says.BAD, "no end", 7)),
        (Answer(Reply.UNKNOWN, "no end", 7), "healthy", None, Outcome(Says.GOOD, "", 7)),
        (Answer(Reply.UNKNOWN, "no end", 7), "keep", None, Outcome(Says.NOTHING)),
        (Answer(Reply.AWAITED, "no answer yet"), "unhealthy", None, Outcome(Says.AWAITED, "no answer yet")),
        (Answer(Reply.AWAITED, "no answer yet"), "healthy", None, Outcome(Says.NOTHING, "no answer yet")),
        (Answer(Reply.AWAITED, "no answer yet"), "keep", None, Outcome(Says.NOTHING, "no answer yet")),
        (Answer(Reply.OFF, "no such program"), "unhealthy", None, Outcome(Says.BESIDE, "no such program")),
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
    told = Told(facts, Answer(Reply.WELL))
    assert Check("x", RUN).ask(told) == bad(reason)
    assert Check("x", RUN, on_unknown=OnUnknown.HEALTHY).ask(told) == Outcome(Says.GOOD)
    assert Check("x", RUN, on_unknown=OnUnknown.KEEP).ask(told) == Outcome(Says.NOTHING)
    assert told.asked == []


def test_a_socket_is_one_path():
    dial = Dial(parse("/run/{name}.sock"), timeout=2, every=30)
    facts = Told({"name": "npu0"}, Answer(Reply.WELL, "", 3))
    assert Check("x", dial).ask(facts) == Outcome(Says.GOOD, "", 3)
    assert facts.asked == [Service("/run/npu0.sock", 2, 30)]
    facts = Told({"name": "../x"}, Answer(Reply.WELL))
    assert Check("x", dial).ask(facts) == bad("name: '../x' cannot be in a path")
    assert facts.asked == []


def test_a_service_is_told_of_what_it_is_asked():
    dial = Dial(parse("/run/x"), 2, 30, parse("{address}"), Speaks.AMD_METRICS)
    facts = Told({"address": "0000:3b:00.0"}, Answer(Reply.OFF, "there is none"))
    assert Check("x", dial).ask(facts) == Outcome(Says.BESIDE, "there is none")
    assert facts.asked == [Service("/run/x", 2, 30, "0000:3b:00.0", Speaks.AMD_METRICS)]
    assert Check("x", dial).ask(Told({}, Answer(Reply.WELL))).says is Says.BAD


def test_where_it_does_not_apply_nobody_is_asked():
    facts = Told({**FACTS, "state": "off"}, Answer(Reply.ILL))
    assert Check("x", RUN, when=HOLDS).ask(facts) == Outcome(Says.BESIDE)
    assert facts.asked == []
