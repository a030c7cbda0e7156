"""The kubelet stops and starts, alone or with everything else."""

import pytest

from tests.node.node import entry

REBOOTS, GOAL = 20, 19


@pytest.fixture
def serving(node):
    for n in range(2):
        node.plug(f"lab/k{n}", "c", 240, 100 + n)

    def serve(name):
        node.serve(entry(name, "/dev/lab/k*", to="/dev/it{n}"))
        node.start_agent()
        node.offers(name, "lab_k0", "lab_k1")
        node.apply(f"{name}-old", **{name: 1})
        node.running(f"{name}-old")
        return f"{name}-old", f"{name}-new"

    return serve


def check_new_pod(node, name, new, old):
    node.offers(name, "lab_k0", "lab_k1")
    node.apply(new, **{name: 1})
    node.running(new)
    assert {node.inside(pod, "echo $IDS") for pod in (old, new)} == {"lab_k0", "lab_k1"}


def test_killed_and_restarted_with_the_agent_alive(node, serving):
    old, new = serving("alive")
    before = node.life(old)
    node.kubelet.end()
    node.start_kubelet()
    check_new_pod(node, "alive", new, old)
    assert node.life(old) == before
    assert "Traceback" not in node.agent.said


def test_killed_and_restarted_with_the_agent_down(node, serving):
    old, new = serving("both-down")
    before = node.life(old)
    node.agent.end()
    node.kubelet.end()
    node.start_kubelet()
    node.running(old)
    assert node.life(old) == before
    node.start_agent()
    check_new_pod(node, "both-down", new, old)
    assert node.life(old) == before


def test_the_agent_begins_while_there_is_no_kubelet(node, serving):
    old, new = serving("waiting")
    before = node.life(old)
    node.kubelet.end()
    node.restart_agent()
    node.start_kubelet()
    check_new_pod(node, "waiting", new, old)
    assert node.life(old) == before


def test_restarted_ten_times(node, serving):
    old, new = serving("often")
    before = node.life(old)
    for _ in range(10):
        node.kubelet.end()
        node.start_kubelet()
        node.offers("often", "lab_k0", "lab_k1")
    check_new_pod(node, "often", new, old)
    assert node.life(old) == before


@pytest.mark.timeout(900)
def test_static_pods_with_devices_are_admitted_after_a_reboot(node, serving, report):
    """In the order of the unit: the kubelet is started when the agent is ready, and does not wait for it.

    The kubelet's first pod comes 0 to 200 ms after its registry, by a timer of its own that no plugin has a say in;
    the goal is GOAL of REBOOTS, which is out of reach where its first pods come after a few milliseconds, and on a
    busy machine. Asserted is that a pod is refused only if it came before our list.
    """
    pod, _ = serving("rebooted")
    node.machine.hurry()
    boots, refusals = [], 0
    for n in range(REBOOTS):
        node.cut_power()
        node.start_agent()
        node.boot()
        refused = node.outcome(pod)
        first_pod, listed = node.boot_times()
        boots.append(f"{'refused' if refused else 'admitted'}: first pod {first_pod:.0f} ms, our list {listed:.0f} ms")
        if refused:
            assert "no healthy devices present" in refused  # and never a pod without its device
            assert first_pod < listed, boots
            refusals += 1
            node.offers("rebooted", "lab_k0", "lab_k1")
            node.remove(pod)
            pod = f"rebooted-{n}"  # what was refused has failed for good
            node.apply(pod, rebooted=1)
            node.running(pod)
        else:
            assert node.nodes(pod).keys() == {"/dev/it0"}
    report(f"reboots: {REBOOTS - refusals} of {REBOOTS} admitted, the goal is {GOAL}")
    print(*boots, sep="\n")
