"""What a check says of a device at one look."""

from dataclasses import replace

import pytest

from agent.core.entry.check import SHOWN, Check, OnUnknown, Outcome, Says
from agent.core.language.operators import Equals, Items, Not, Of
from agent.core.language.text import parse
from agent.core.language.value import Kind
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
        # What an absent word could not change is known (rulings 16).
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
