"""The agent stops and starts under running pods, in every possible way."""

import signal

import pytest

from tests.node.node import IDS, entry


@pytest.fixture
def serving(node):
    """An agent with a resource of its own for each test, and a pod that has one of three devices."""
    for n in range(3):
        node.plug(f"lab/dev{n}", "c", 240, 80 + n)

    def serve(name):
        node.serve(entry(name, "/dev/lab/dev*", to="/dev/it{n}"))
        node.start_agent()
        node.offers(name, *DEVICES)
        node.apply(f"{name}-old", **{name: 1})
        node.running(f"{name}-old")
        return f"{name}-old", f"{name}-new"

    return serve


DEVICES = ("lab_dev0", "lab_dev1", "lab_dev2")


def check_new_pod(node, name, new, old):
    """A new pod gets another device than the old one has."""
    node.offers(name, *DEVICES)
    node.apply(new, **{name: 1})
    node.running(new)
    assert node.inside(new, "echo $IDS") in set(DEVICES) - {node.inside(old, "echo $IDS")}
    assert node.nodes(new).keys() == {"/dev/it0"}


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=["SIGKILL", "SIGTERM"])
def test_restarted(node, serving, number):
    name = f"restarted-{number.name.lower()}"
    old, new = serving(name)
    before, has = node.life(old), node.nodes(old)
    node.agent.end(number)
    node.offers(name)
    assert node.life(old) == before
    node.start_agent()
    check_new_pod(node, name, new, old)
    assert node.life(old) == before
    assert node.nodes(old) == has


def test_a_container_restarts_while_the_agent_is_down(node, serving):
    """The kubelet gives it what it was given before."""
    old, new = serving("down")
    had, before = (node.inside(old, "echo $IDS"), node.nodes(old)), node.container(old)
    node.agent.end()
    node.offers("down")
    node.kill(old)
    node.runs_again(old, before)
    assert (node.inside(old, "echo $IDS"), node.nodes(old)) == had
    node.start_agent()
    check_new_pod(node, "down", new, old)


def test_reloaded_with_a_changed_entry(node, serving):
    old, new = serving("reloaded")
    before, has = node.life(old), node.nodes(old)
    node.serve(
        entry("reloaded", "/dev/lab/dev*", to="/dev/changed{n}", env=f'{IDS}\nMORE = "yes"'),
        entry("added", "/dev/added"),
    )
    node.plug("added", "c", 240, 90)
    node.reload_agent()
    node.offers("added", "added")
    node.apply(new, reloaded=1, added=1)
    node.running(new)
    assert node.nodes(new).keys() == {"/dev/changed0", "/dev/added"}
    assert node.inside(new, "echo $MORE") == "yes"
    assert node.life(old) == before
    assert node.nodes(old) == has
    assert node.inside(old, "echo $MORE") == ""


def test_a_broken_reload_changes_nothing(node, serving):
    old, new = serving("broken")
    before = node.life(old)
    node.serve("[[resource]]\nname = 1\n")
    node.reload_agent()
    assert "refused" in node.agent.said
    check_new_pod(node, "broken", new, old)
    assert node.life(old) == before


def test_an_entry_is_taken_out_under_its_pod(node, serving):
    """The pod goes on; nobody new gets a device; when the pod is over the resource is."""
    old, new = serving("taken")
    before = node.life(old)
    node.serve(entry("other", "/dev/none"))
    node.reload_agent()
    node.offers("taken")
    node.apply(new, taken=1)
    assert node.refused(new)[0] == "UnexpectedAdmissionError"
    assert node.life(old) == before
    node.serve(entry("taken", "/dev/lab/dev*", to="/dev/it{n}"))
    node.reload_agent()
    check_new_pod(node, "taken", "taken-again", old)
    assert node.life(old) == before


def test_upgraded(node, serving):
    """New files are put under the running agent, which goes on serving with the old ones until it is restarted."""
    old, new = serving("upgraded")
    before, has = node.life(old), node.nodes(old)
    assert node.version() == "0"
    node.uninstall()
    check_new_pod(node, "upgraded", "upgraded-without-files", old)
    node.reload_agent()
    node.remove("upgraded-without-files")
    node.install("1")
    assert node.version() == "1"
    node.restart_agent(signal.SIGTERM)
    check_new_pod(node, "upgraded", new, old)
    assert node.life(old) == before
    assert node.nodes(old) == has
