"""The status line, and the log lines for held devices that become Unhealthy."""

import asyncio
import logging
import re
from datetime import datetime

import pytest

from agent.app import describe_ignored_files
from agent.config.toml.finding import Finding, Severity
from agent.core.grants.held_ids import Holder
from agent.core.inventory.device import Health
from agent.core.lists.build_lists import DeviceLists
from agent.core.lists.transitions import BLIP_REASON
from agent.core.message_id import NOTICE, MessageId
from agent.core.reason import NO_REASON, Reason, ReasonCause
from agent.core.registration_phase import Phase
from agent.counters import Counters
from agent.status.agent_status import Status
from tests.core.builders import lists, make_check_reason, make_listed, no_kubelet, refusal, snapshot

A = "example.com/a"


EVIDENCE = "{0.key}, {1}: Xid \x1b".format


def ill(name, reason, **more):
    return make_listed(name, health=Health.UNHEALTHY, reason=reason, **more)


def record_lists(status, *devices, first=False):
    before = status.lists
    status.record_lists(before, DeviceLists(lists(snapshot(*devices))), is_first=first)


@pytest.fixture
def status():
    made = Status(
        get_holders=lambda: {(A, "x"): (Holder("ml", "train", "c"),), (A, "y::3"): (Holder("ml", "t\x1b", "c"),)}
    )
    made.add(A)
    made.set_phase(A, Phase.STREAMING, NO_REASON)
    return made


def test_the_line_names_one_that_is_not_healthy(status):
    record_lists(status, make_listed("w"), make_listed("x"), first=True)
    assert status.format_line() == "1 resource streaming, 2 devices, all Healthy"
    record_lists(status, ill("w", Reason(ReasonCause.DRAIN, "RMA")), ill("x", "heat: \x1b[2J"))
    assert status.format_line() == "1 resource streaming, 0 of 2 devices Healthy: example.com/a x: heat: \\x1b[2J"
    record_lists(status, ill("w", Reason(ReasonCause.DRAIN, "RMA")), make_listed("x"))
    assert status.format_line().endswith("1 of 2 devices Healthy: example.com/a w: drained: RMA")
    record_lists(status, ill("w", "drained: so it says"), ill("x", "heat"))
    assert status.format_line().endswith("0 of 2 devices Healthy: example.com/a w: drained: so it says")
    record_lists(status, ill("x", "long " * 100))
    assert len(status.format_line()) < 200


def test_who_has_it_is_said_when_it_fails_and_only_then(status, caplog):
    caplog.set_level(logging.INFO)
    record_lists(status, make_listed("x"), make_listed("y", shares=4), make_listed("z"), first=True)
    record_lists(status, ill("x", "absent"), ill("y", "absent", shares=4), ill("z", "absent"))
    record_lists(status, ill("x", "heat"), make_listed("y", shares=4), make_listed("z"))
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
    record_lists(status, make_listed("x", instance_id="1"), make_listed("z", instance_id="1"), first=True)
    record_lists(status, make_listed("x", instance_id="2"), make_listed("z", instance_id="2"))
    record_lists(status, make_listed("x", instance_id="2"), make_listed("z", instance_id="2"))
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("WARNING", f"example.com/a x: Healthy → Healthy: {BLIP_REASON} (held by ml/train)"),
        ("INFO", f"example.com/a z: Healthy → Healthy: {BLIP_REASON}"),
    ]
    assert (status._counters.blips, status._counters.transitions) == ({A: 2}, {})
    assert [change.reason for change in status.history.changes[A, "x"]] == [BLIP_REASON]


def test_history_and_counts_are_of_the_same_changes(status):
    record_lists(status, make_listed("x"), first=True)
    record_lists(status, ill("x", "absent"))
    record_lists(status, ill("x", "heat"))
    assert [(change.new_health, change.reason) for change in status.history.changes[A, "x"]] == [
        (Health.UNHEALTHY, "absent"),
        (Health.UNHEALTHY, "heat"),
    ]
    assert status._counters.transitions == {(A, "Unhealthy"): 1}


def test_the_line_of_a_kubelet_that_is_down(status):
    record_lists(status, make_listed("x"), first=True)
    status.add("example.com/b")
    status.set_phase("example.com/b", Phase.STREAMING, NO_REASON)
    status.add("example.com/c")
    for name in (A, "example.com/b"):
        status.set_phase(name, Phase.WAITING, no_kubelet("kubelet.sock refuses connections"))
    status.set_phase("example.com/c", Phase.WAITING, Reason.from_text("gate: module onload gone"))
    assert status.format_line() == (
        "0 of 3 resources streaming, 1 device, all Healthy; example.com/a and 2 more waiting: "
        "kubelet: kubelet.sock refuses connections"
    )
    status.remove("example.com/c")
    status.set_phase(A, Phase.WAITING, no_kubelet("kubelet.sock is gone"))
    said = r"waiting for the kubelet since \d\d:\d\d:\d\d \(kubelet.sock is gone\): 2 resources, 1 device, all Healthy"
    assert re.fullmatch(said, status.format_line()), status.format_line()
    status.add("example.com/c")
    status.set_phase("example.com/c", Phase.WAITING, Reason.from_text("gate: module onload gone"))
    status.set_notice("reload refused (1 error), 9f3c21 stays active")
    assert status.format_line().endswith(
        ": 3 resources, 1 device, all Healthy; example.com/c waiting: gate: module onload gone; "
        "reload refused (1 error), 9f3c21 stays active"
    )


def test_files_that_are_left_out_are_in_the_line(status):
    found = [Finding("resources.d/a.toml", 1, 1, 2, Severity.ERROR, "x", "y", "z") for _ in range(2)]
    status.ignored_files = describe_ignored_files(found)
    assert status.format_line() == "1 resource streaming, no devices; without 1 file (2 errors: device-agent check)"
    assert describe_ignored_files([]) == ""


def test_a_transition_has_what_programs_look_for(caplog):
    caplog.set_level(logging.INFO)
    holders = {(A, "x"): (Holder("ml", "train", "c"),)}
    status = Status(
        get_holders=lambda: holders, list_checks=lambda _: frozenset({"kernel_log"}), find_evidence=EVIDENCE
    )
    status.add(A)
    status.set_phase(A, Phase.STREAMING, NO_REASON)
    record_lists(status, make_listed("x"), first=True)
    record_lists(status, ill("x", make_check_reason("kernel_log", "Xid 79\x1b")))
    record_lists(status, make_listed("x"))
    record_lists(status, ill("x", "kernel_log: a node is missing"))
    streaming, down, back, other = (record.fields for record in caplog.records)
    assert "DEVICE_AGENT_CHECK" not in other
    assert streaming["MESSAGE_ID"] == MessageId.STREAMING.value
    assert (streaming["DEVICE_AGENT_FROM"], streaming["DEVICE_AGENT_TO"]) == ("waiting", "streaming")
    assert down == {
        "MESSAGE_ID": MessageId.UNHEALTHY.value,
        "DEVICE_AGENT_RESOURCE": A,
        "DEVICE_AGENT_DEVICE": "x",
        "DEVICE_AGENT_ADDRESS": "x",
        "DEVICE_AGENT_FROM": "Healthy",
        "DEVICE_AGENT_TO": "Unhealthy",
        "DEVICE_AGENT_CHECK": "kernel_log",
        "DEVICE_AGENT_REASON": "kernel_log: Xid 79\\x1b",
        "DEVICE_AGENT_EVIDENCE": "key x, kernel_log: Xid \\x1b",
        "DEVICE_AGENT_POD": "ml/train",
    }
    assert back["MESSAGE_ID"] == MessageId.HEALTHY.value
    assert datetime.fromisoformat(back["DEVICE_AGENT_SINCE"]).tzinfo
    assert [record.levelno for record in caplog.records] == [logging.INFO, logging.WARNING, NOTICE, logging.WARNING]


def test_many_at_once_are_one_line(status, caplog):
    caplog.set_level(logging.INFO)
    names = [f"d{number}" for number in range(11)]
    record_lists(status, *map(make_listed, names), first=True)
    record_lists(status, *(ill(name, "absent") for name in names))
    (record,) = caplog.records
    assert record.fields["MESSAGE_ID"] == MessageId.AT_ONCE.value
    assert "11 devices changed at once: 0 Healthy, 11 not" in record.getMessage()


def test_the_kubelet_is_there_as_soon_as_one_resource_streams():
    status = Status(get_holders=dict)
    for name in (A, "example.com/b"):
        status.add(name)
    assert status.kubelet.up is None
    status.set_phase("example.com/b", Phase.WAITING, refusal("no"))
    assert status.kubelet.up is None
    status.set_phase(A, Phase.STREAMING, NO_REASON)
    assert status.kubelet.up is True


@pytest.mark.parametrize(
    "comes",
    [
        lambda status: status.set_phase("example.com/b", Phase.STREAMING, NO_REASON),
        lambda status: status.set_phase("example.com/b", Phase.WAITING, refusal("no")),
        lambda status: status.set_phase("example.com/b", Phase.WAITING, no_kubelet("it is not there")),
        lambda status: status.remove("example.com/b"),
    ],
)
async def test_all_have_arrived_when_the_last_has_or_is_known_not_to(status, comes):
    status.add("example.com/b")
    status.set_phase("example.com/b", Phase.REGISTERING, NO_REASON)
    arrived = asyncio.create_task(status.wait_for_arrival())
    await asyncio.sleep(0)
    assert not arrived.done()
    comes(status)
    await arrived
    status.set_phase(A, Phase.REGISTERING, NO_REASON)  # on its way again
    await status.wait_for_arrival()


def test_a_resource_that_the_kubelet_refuses_does_not_keep_it_down(status, caplog):
    caplog.set_level(NOTICE)
    status.add("example.com/b")
    for name in (A, "example.com/b"):
        status.set_phase(name, Phase.WAITING, no_kubelet("kubelet.sock is gone"))
    assert status.kubelet.up is False
    status.set_phase("example.com/b", Phase.REGISTERING, NO_REASON)
    status.set_phase(A, Phase.REGISTERING, NO_REASON)
    status.set_phase(A, Phase.STREAMING, NO_REASON)
    assert status.kubelet.up is False  # the other may come yet
    status.set_phase("example.com/b", Phase.WAITING, refusal("no"))
    assert (status.kubelet.up, status.kubelet.restarts) == (True, 1)
    assert caplog.messages[-1] == "kubelet: down → up: 1 of 2 resources listed again"


@pytest.mark.parametrize(
    ("reason", "counted", "logged", "up"),
    [
        (Reason(ReasonCause.KUBELET, "a gate is closed"), "failed", "kubelet: up → down: a gate is closed", False),
        (Reason(ReasonCause.REFUSED, "kubelet: it is gone"), "refused", f"{A}: registering → waiting: ", True),
        (Reason.from_text("kubelet: it is gone"), "failed", f"{A}: registering → waiting: kubelet: it is gone", True),
        (
            Reason.from_text("the kubelet refused: no"),
            "failed",
            f"{A}: registering → waiting: the kubelet refused: no",
            True,
        ),
        (Reason.from_text("starting"), "failed", f"{A}: registering → waiting: starting", True),
    ],
)
def test_the_cause_of_a_reason_decides_and_not_its_text(caplog, reason, counted, logged, up):
    counts = Counters()
    status = Status(counts)
    status.add(A)
    status.set_phase(A, Phase.STREAMING, NO_REASON)
    status.set_phase(A, Phase.REGISTERING, NO_REASON)
    status.set_phase(A, Phase.WAITING, reason)
    assert counts.registrations == {(A, counted): 1}
    assert caplog.messages[-1].startswith(logged)
    assert status.kubelet.up is up
    assert status.has_started
