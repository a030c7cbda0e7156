"""status: how an answer of the agent looks to people."""

import json

import pytest

from agent.cli.status import format_status
from agent.cli.terminal import Terminal
from agent.core.health.drain_overlay import Drain, DrainSet
from agent.core.inventory.device import Health
from agent.core.lists.transitions import TransitionRecord
from agent.core.reason import Reason
from agent.core.registration_phase import Phase
from agent.core.report.agent_snapshot import ActiveConfigState, KubeletState, ResourceState
from agent.core.report.status_report import build_status_report, compute_revision
from agent.core.struct import replace
from tests.core.builders import no_kubelet, spec
from tests.core.test_report import NOW, A, bad, good, moment

WIDE = Terminal(120, utc=True)
PIPE = Terminal(utc=True)
DOWN = ResourceState(Phase.WAITING, no_kubelet("kubelet.sock refuses connections"), 900.0)


def answer(made):
    said = build_status_report(made)
    return json.loads(json.dumps({**said, "revision": compute_revision(said)}))


def night():
    names = [f"example.com/{letter}" for letter in "abcd"]
    made = moment(
        *(candidate for name in names[1:] for candidate in [good(f"{name[-1]}1", resource=name)]),
        bad("x", "Xid 79"),
        specs=tuple(spec(name) for name in names),
        held=["x"],
    )
    states = dict.fromkeys(names, DOWN)
    states["example.com/b"] = ResourceState(Phase.WAITING, Reason.from_text("gate: module onload"), 100.0)
    return replace(
        made, states=states, kubelet=KubeletState(up=False, since=900.0, reason="kubelet.sock refuses connections")
    )


def test_problems_come_first_each_with_a_next_step():
    said = answer(night())
    shown = format_status(said, WIDE, is_folded=True)
    assert shown[0].startswith("✖ device-agent 1 on n, up 16 min, configuration abcdef of ")
    assert shown[2] == "  3 problems:"
    assert shown[3].startswith("  1 kubelet        down since ")
    assert "Running pods keep their devices, no new pod starts." in shown[4]
    assert shown[5].split() == ["next:", "journalctl", "-u", "kubelet", "-n", "50"]
    assert all(problem["next"] for problem in said["attention"])


def test_what_waits_for_one_thing_is_one_row_on_a_terminal():
    shown = format_status(answer(night()), WIDE, is_folded=True)
    table = [line.split() for line in shown[-4:]]
    assert table[0][:2] == ["RESOURCE", "STATE"]
    assert [row[0] for row in table[1:]] == ["example.com/a", "example.com/b", "+"]
    assert table[3][:8] == ["+", "2", "alike", "waiting:", "kubelet", "all", "Healthy", "?"]
    shown = format_status(answer(night()), PIPE)
    assert [line.split()[0] for line in shown[-4:]] == [f"example.com/{letter}" for letter in "abcd"]


@pytest.mark.parametrize("width", [None, 120, 80, 60, 40])
def test_a_name_is_whole_however_narrow_it_is(width):
    for line in format_status(answer(night()), Terminal(width, utc=True))[-4:]:
        assert line.startswith("example.com/")


def test_what_pods_hold_has_its_time_when_it_is_old():
    made = moment(good("x"), holders_time=NOW - 1)
    assert not any("*" in line for line in format_status(answer(made), PIPE))
    *_, row, note, last = format_status(answer(replace(made, holders_time=NOW - 60)), PIPE)
    assert row.split()[3] == "0*"
    assert note.startswith("* as the kubelet reported at ")
    assert last == "There are no problems."


def test_the_last_change_is_said_and_told_whole():
    changes = {(A, "x"): (TransitionRecord(500.0, Health.HEALTHY, Health.UNHEALTHY, "heat"),)}
    said = answer(moment(good("x"), changes=changes))
    changed = {"resource": A, "id": "x", "from": "Healthy", "to": "Unhealthy", "reason": "heat"}
    assert said["changes"] == [{"time": "1970-01-12T13:38:20.000Z", **changed}]
    assert " · last change 13:38:20Z" in format_status(said, PIPE)[1]


def test_a_revision_does_not_mind_the_time():
    made = moment(good("x"))
    assert (
        answer(made)["revision"] == answer(replace(made, current_time=NOW + 7.0003, wall_time=1_000_007.0))["revision"]
    )
    assert answer(made)["revision"] != answer(moment(bad("x")))["revision"]


def test_one_of_a_thing_is_one():
    made = replace(moment(good("x")), configuration=ActiveConfigState("abcdef", 2.0, 1))
    head = format_status(answer(made), PIPE)[:2]
    assert head[0].endswith("(1 resource, 1 file)")
    assert "1 of 1 device Healthy" in head[1]


def test_of_one_resource_the_head_tells_of_it_and_of_the_configuration_all():
    made = night()
    drained = DrainSet({"x": Drain("RMA", 1.0)}, {"example.com/b": Drain("", 2.0)})
    for name, state, drains in (
        ("example.com/a", "waiting", 1),
        ("example.com/b", "waiting", 1),
        ("example.com/c", "", 0),
    ):
        said = build_status_report(replace(made, drains=drained), name)
        head = format_status(json.loads(json.dumps(said)), PIPE)[:2]
        assert head[0].endswith("(4 resources, 3 files)")
        assert f" · {name} {state}" in head[1]
        assert " of 1 device Healthy" in head[1]
        assert len(said["drained"]) == drains
    assert len(build_status_report(replace(made, drains=drained))["drained"]) == 2


def test_an_agent_that_does_not_say_how_many_there_are_is_asked_all_the_same():
    said = answer(moment(good("x")))
    del said["config"]["resources"]
    assert "(1 resource, " in format_status(said, PIPE)[0]


def test_without_unicode_marks_are_ascii():
    shown = "\n".join(format_status(answer(night()), Terminal(80, has_unicode=False, utc=True)))
    assert shown.isascii()
    assert "\x1b" not in shown
