"""Devices go and come back under running pods, and go just before they are given."""

import re

from tests.node.machine import until
from tests.node.node import entry


def test_unplugged_under_a_running_pod_and_plugged_in_again(node):
    node.plug("lab/loose", "c", 240, 110)
    node.plug("lab/loose-too", "c", 240, 111)
    node.serve(entry("loose", "/dev/lab/loose*"))
    node.start_agent()
    node.offers("loose", "lab_loose", "lab_loose-too")
    node.apply("stays", loose=2)
    node.running("stays")
    before = node.life("stays")
    assert node.health("stays") == {"lab_loose": "Healthy", "lab_loose-too": "Healthy"}

    node.unplug("lab/loose")
    until(lambda: node.health("stays")["lab_loose"] == "Unhealthy", 10, "the pod's status says Unhealthy")
    assert node.health("stays")["lab_loose-too"] == "Healthy"
    node.offers("loose", "lab_loose-too")
    assert node.life("stays") == before

    node.plug("lab/loose", "c", 240, 110)
    until(lambda: node.health("stays")["lab_loose"] == "Healthy", 10, "the pod's status says Healthy")
    node.offers("loose", "lab_loose", "lab_loose-too")
    assert node.life("stays") == before


def test_an_unplugged_device_that_is_held_outlasts_restarts_of_both(node):
    """It stays Unhealthy in the pod's status, and no kubelet of today crashes."""
    node.plug("lab/lost", "c", 240, 112)
    node.serve(entry("lost", "/dev/lab/lost"))
    node.start_agent()
    node.offers("lost", "lab_lost")
    node.apply("loses", lost=1)
    node.running("loses")
    before = node.life("loses")
    node.unplug("lab/lost")
    until(lambda: node.health("loses") == {"lab_lost": "Unhealthy"}, 10, "the pod's status says Unhealthy")
    node.restart_agent()
    node.restart_kubelet()
    until(lambda: node.health("loses") == {"lab_lost": "Unhealthy"}, 20, "the new ones say Unhealthy")
    assert node.life("loses") == before
    node.plug("lab/lost", "c", 240, 112)
    until(lambda: node.health("loses") == {"lab_lost": "Healthy"}, 10, "the pod's status says Healthy")
    assert node.life("loses") == before


def test_a_refused_allocate_says_why_in_the_pods_status(node):
    """The node goes between the list and the grant: the agent has just looked, and looks again only after a while."""
    node.plug("lab/gone", "c", 240, 113)
    node.serve(entry("refused", "/dev/lab/gone*"), settle="8s")
    node.start_agent()
    node.offers("refused", "lab_gone")
    node.plug("lab/gone2", "c", 240, 114)
    node.offers("refused", "lab_gone", "lab_gone2")
    node.unplug("lab/gone")
    node.apply("unlucky", refused=2)
    reason, message = node.refused("unlucky")
    assert reason == "UnexpectedAdmissionError"
    ours = re.search(
        r"desc = (node.test/refused lab_gone: .*; on the node: device-agent scan /dev/lab/gone), which", message
    )
    assert ours, message
    node.agent.says(f"refused: {ours[1]}")
    node.offers("refused", "lab_gone2")


def test_a_new_device_is_given_without_any_restart(node):
    node.serve(entry("later", "/dev/lab/later*"))
    node.start_agent()
    node.agent.says("streaming: 0 devices")
    node.apply("too-early", later=1)
    assert node.refused("too-early")[0] == "UnexpectedAdmissionError"
    node.plug("lab/later0", "c", 240, 115)
    node.offers("later", "lab_later0")
    node.apply("in-time", later=1)
    node.running("in-time")
    assert node.nodes("in-time") == {"/dev/lab/later0": "c 240:115"}
    node.remove("in-time")
    node.apply("looked-at-later", later=1)
    node.running("looked-at-later")
    assert node.status("too-early")["phase"] == "Failed"  # for good, whatever there is by now


def test_a_resource_that_the_kubelet_never_knew_is_ignored_by_it(node):
    """A static pod runs without its device: the agent has to be there first (docs/operations.md)."""
    node.apply("runs-without", never=1)
    node.running("runs-without")
    assert node.nodes("runs-without") == {}
