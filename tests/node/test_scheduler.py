"""A node of a cluster: the decisions of a scheduler about changing devices. Its containerd creates the device nodes."""

import time

import pytest

from tests.node.cluster_node import RegisteredNode
from tests.node.conftest import fresh, new_machine
from tests.node.control import Control
from tests.node.node import NO_DRIVER, entry

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def registered_node(kubelet_program, control_program):
    machine = new_machine()
    try:
        control = Control(machine, control_program)
        control.start()
        made = RegisteredNode(machine, kubelet_program, control)
        made.begin()
        yield made
    finally:
        machine.close()


@pytest.fixture
def node(registered_node):
    yield from fresh(registered_node)


def measure_time(report, what, wait):
    begun = time.monotonic()
    wait()
    report(f"{what}: {time.monotonic() - begun:.1f} s")


def wait_for_successor(node, old, new):
    node.remove(old)
    node.running(new)


def test_the_nodes_status_follows_its_devices(node, report):
    node.serve(entry("followed", "/dev/lab/followed*"))
    node.start_agent()
    node.says("followed", 0, 0)
    node.plug("lab/followed0", "c", 240, 120)
    measure_time(report, "a first device appears → the node's capacity", lambda: node.says("followed", 1, 1))
    node.plug("lab/followed1", "c", 240, 121)
    measure_time(report, "a device appears → the node's capacity", lambda: node.says("followed", 2, 2))
    node.unplug("lab/followed0")
    measure_time(report, "a device vanishes → the node's allocatable", lambda: node.says("followed", 2, 1))
    node.plug("lab/followed0", "c", 240, 120)
    measure_time(report, "it is back → the node's allocatable", lambda: node.says("followed", 2, 2))


def test_a_pending_pod_runs_when_its_device_appears(node, report):
    node.serve(entry("awaited", "/dev/lab/awaited*"))
    node.start_agent()
    node.apply("waits", awaited=1)
    node.pending("waits", "awaited")
    node.plug("lab/awaited0", "c", 240, 122)
    measure_time(
        report, "a device appears → the pod that waited for it runs", lambda: node.running("waits", seconds=90)
    )
    assert node.nodes("waits") == {"/dev/lab/awaited0": "c 240:122"}
    assert node.inside("waits", "echo $IDS") == "lab_awaited0"


def test_a_device_that_is_gone_under_its_pod_costs_another_one(node):
    """The scheduler knows numbers, not devices: the pod still counts, and the node has one less to offer."""
    node.plug("lab/lost0", "c", 240, 125)
    node.serve(entry("costly", "/dev/lab/lost*"))
    node.start_agent()
    node.says("costly", 1, 1)
    node.apply("loses", costly=1)
    node.running("loses")
    before = node.life("loses")
    node.unplug("lab/lost0")
    node.plug("lab/lost1", "c", 240, 126)
    node.says("costly", 2, 1)
    node.apply("has-to-wait", costly=1)
    node.pending("has-to-wait", "costly")
    assert node.life("loses") == before
    node.remove("loses")
    node.running("has-to-wait")
    assert node.nodes("has-to-wait") == {"/dev/lab/lost1": "c 240:126"}


def test_a_pod_gets_the_device_of_one_that_is_over(node, report):
    node.plug("lab/handed", "c", 240, 124)
    node.serve(entry("handed", "/dev/lab/handed"))
    node.start_agent()
    node.says("handed", 1, 1)
    node.apply("first", handed=1)
    measure_time(report, "a pod is made → it runs", lambda: node.running("first"))
    node.apply("second", handed=1)
    node.pending("second", "handed")
    measure_time(
        report,
        "a pod is deleted → the one that waited for its device runs",
        lambda: wait_for_successor(node, "first", "second"),
    )
    assert node.nodes("second") == {"/dev/lab/handed": "c 240:124"}


def test_a_container_that_is_not_root_opens_a_node_that_is_handed_over(node):
    """`device_ownership_from_security_context`; without it: test_containers.py."""
    node.plug("lab/over", "c", 240, 127)
    node.serve(entry("over", "/dev/lab/over"))
    node.start_agent()
    node.says("over", 1, 1)
    node.deploy("not-root", {"node.test/over": "1"}, security={"runAsUser": 1000, "runAsGroup": 1000})
    node.running("not-root")
    assert NO_DRIVER in node.inside("not-root", "head -c 1 /dev/lab/over", user="1000:1000")
