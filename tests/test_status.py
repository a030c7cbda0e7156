"""The status line, and who held what is Healthy no more."""

import logging

import pytest

from agent.core.grants.holding import Holder
from agent.core.inventory.device import Health
from agent.core.lists.assemble import Assembly
from agent.core.lists.transition import BLIP
from agent.core.phase import Phase
from agent.status import Status
from tests.core.building import listed, lists, snapshot

A = "example.com/a"


def ill(name, reason, **more):
    return listed(name, health=Health.UNHEALTHY, reason=reason, **more)


def told(status, *devices, first=False):
    before = status.lists
    status.published(before, Assembly(lists(snapshot(*devices))), first=first)


@pytest.fixture
def status():
    made = Status(holders=lambda: {(A, "x"): (Holder("ml", "train", "c"),), (A, "y::3"): (Holder("ml", "t\x1b", "c"),)})
    made.add(A)
    made.phase(A, Phase.STREAMING, "")
    return made


def test_the_line_names_one_that_is_not_healthy(status):
    told(status, listed("w"), listed("x"), first=True)
    assert status.line() == "1 of 1 resource streaming, 2 of 2 devices Healthy"
    told(status, ill("w", "drained: RMA"), ill("x", "heat: \x1b[2J"))
    assert status.line() == "1 of 1 resource streaming, 0 of 2 devices Healthy: example.com/a x: heat: \\x1b[2J"
    told(status, ill("w", "drained: RMA"), listed("x"))
    assert status.line().endswith("1 of 2 devices Healthy: example.com/a w: drained: RMA")
    told(status, ill("x", "long " * 100))
    assert len(status.line()) < 200


def test_who_has_it_is_said_when_it_fails_and_only_then(status, caplog):
    caplog.set_level(logging.INFO)
    told(status, listed("x"), listed("y", shares=4), listed("z"), first=True)
    told(status, ill("x", "absent"), ill("y", "absent", shares=4), ill("z", "absent"))
    told(status, ill("x", "heat"), listed("y", shares=4), listed("z"))
    assert [record.getMessage() for record in caplog.records] == [
        "example.com/a x: Healthy → Unhealthy: absent (held by ml/train)",
        "example.com/a y: Healthy → Unhealthy: absent (held by ml/t\\x1b)",
        "example.com/a z: Healthy → Unhealthy: absent",
        "example.com/a x: Unhealthy → Unhealthy: heat",
        "example.com/a y: Unhealthy → Healthy: back, was: absent",
        "example.com/a z: Unhealthy → Healthy: back, was: absent",
    ]


def test_a_blip_is_said_counted_and_remembered_and_is_no_change_of_health(status, caplog):
    caplog.set_level(logging.INFO)
    told(status, listed("x", stamp="1"), listed("z", stamp="1"), first=True)
    told(status, listed("x", stamp="2"), listed("z", stamp="2"))
    told(status, listed("x", stamp="2"), listed("z", stamp="2"))
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("WARNING", f"example.com/a x: Healthy → Healthy: {BLIP} (held by ml/train)"),
        ("INFO", f"example.com/a z: Healthy → Healthy: {BLIP}"),
    ]
    assert (status._counts.blips, status._counts.transitions) == ({A: 2}, {})
    assert [change.reason for change in status.history.changes[A, "x"]] == [BLIP]


def test_history_and_counts_are_of_the_same_changes(status):
    told(status, listed("x"), first=True)
    told(status, ill("x", "absent"))
    told(status, ill("x", "heat"))
    assert [(change.new, change.reason) for change in status.history.changes[A, "x"]] == [
        (Health.UNHEALTHY, "absent"),
        (Health.UNHEALTHY, "heat"),
    ]
    assert status._counts.transitions == {(A, "Unhealthy"): 1}
