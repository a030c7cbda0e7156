"""Probes in a running agent: from a report to the list of the kubelet."""

import os
from contextlib import contextmanager

import pytest

from agent.core.inventory.dirty_set import ALL_DIRTY
from tests.agent.test_health import CARDS, NPU, ONE, TWO, card, ill, reasons

SCRIPT = "#!/bin/sh\necho $$ >> {top}/pids\nexec cat {top}/pipe\n"


@pytest.fixture
async def node(rig):
    for address in CARDS:
        rig.tree.pci(address)
    await rig.kubelet.start()
    os.mkfifo(rig.top / "pipe")
    rig.pipe = os.open(rig.top / "pipe", os.O_RDWR)
    rig.program = rig.top / "npu-probe"
    rig.program.write_text(SCRIPT.format(top=rig.top))
    rig.program.chmod(0o755)
    yield rig
    os.close(rig.pipe)


def probe(rig, health='probe = "npu"', more=""):
    return card(health, f'{more}\n[resource.probe.npu]\nrun = ["{rig.program}"]')


def say(rig, *lines):
    os.write(rig.pipe, "".join(f"{line}\n" for line in lines).encode())


def verdict(healthy, place=ONE, reason=""):
    return f'{{"place": "{place}", "healthy": {healthy}, "reason": "{reason}"}}'


WELL = (verdict("true"), verdict("true", TWO), '{"complete": true}')


def is_there(pid):
    return os.path.exists(f"/proc/{pid}")


def pids(rig):
    path = rig.top / "pids"
    return path.read_text().split() if path.exists() else []


@contextmanager
def nudges(agent):
    """Of what the tracker is told that may have changed, while in the context."""
    told = []
    nudge = agent.tracker.request_look

    def noted(touched=ALL_DIRTY):
        if touched:
            told.append(touched)
        nudge(touched)

    agent.tracker.request_look = noted
    try:
        yield told
    finally:
        del agent.tracker.request_look


async def test_its_verdicts_are_those_of_the_devices_at_these_places(node):
    node.serve(probe(node))
    async with node.agent() as agent:
        await node.until(lambda: reasons(agent) == dict.fromkeys((ONE, TWO), "state: no answer yet"))
        say(node, *WELL)
        await node.allocatable(NPU, 2)
        with nudges(agent) as told:
            say(node, *WELL, verdict("false", ONE, "Xid 79"))
            await ill(node, ONE)
        assert len(told) == 1
        assert reasons(agent) == {ONE: "state: Xid 79", TWO: ""}
        say(node, verdict("true"), f'{{"place": "{TWO}", "gone": true}}')
        await ill(node, TWO)
        assert reasons(agent)[TWO] == "state: the probe npu says nothing of it"
    assert len(pids(node)) == 1
    assert not is_there(pids(node)[0])


async def test_several_looks_are_several_lines(node):
    node.serve(probe(node, 'probe = "npu"\ntrip = "2 looks"'))
    async with node.agent() as agent:
        say(node, *WELL)
        await node.allocatable(NPU, 2)
        with nudges(agent) as told:
            say(node, verdict("false"))
            await node.until(lambda: told)
        await agent.tracker.wait_for_look()
        agent.tracker.request_look()
        await agent.tracker.wait_for_look()
        assert node.kubelet.unhealthy(NPU) == set()
        say(node, verdict("false"))
        await ill(node, ONE)


async def test_what_it_reports_is_a_word_in_names_too(node):
    word = 'let.model = { probe = "npu", field = "model" }'
    node.serve(probe(node, 'probe = "npu"', word).replace(f'"{NPU}"', f'"{NPU}-{{model}}"'))
    async with node.agent():
        say(node, *WELL, f'{{"place": "{ONE}", "field": "model", "value": "x1"}}')
        await node.allocatable(f"{NPU}-x1", 1)
        say(node, f'{{"place": "{TWO}", "field": "model", "value": "x1"}}')
        await node.allocatable(f"{NPU}-x1", 2)


async def test_a_word_that_it_reports_is_given_as_last_reported(node):
    word = 'let.model = { probe = "npu", field = "model", else = "none" }'
    text = probe(node, 'probe = "npu"', word).replace('env.A = "b"', 'env.A = { value = "{model}", join = "," }')
    node.serve(text)
    async with node.agent():
        say(node, f'{{"place": "{ONE}", "field": "model", "value": "x1"}}', *WELL)
        await node.allocatable(NPU, 2)
        options = await node.kubelet.allocate("pod", "c", {NPU: 2})
        assert sorted(options.envs["A"].split(",")) == ["none", "x1"]


async def test_a_program_that_is_not_there_makes_nobody_ill(node):
    node.program.unlink()
    node.serve(probe(node))
    async with node.agent():
        await node.allocatable(NPU, 2)


async def test_entries_share_a_probe_and_a_reload_ends_what_nobody_asks(node):
    other = node.top / "other"
    other.write_text(SCRIPT.format(top=node.top).replace("/pids", "/others").replace("exec cat", "exec sleep 1000;"))
    other.chmod(0o755)
    node.serve(probe(node), probe(node, more="slots = 3").replace(NPU, "acme.com/other"))
    async with node.agent() as agent:
        say(node, *WELL)
        await node.allocatable(NPU, 2)
        await node.allocatable("acme.com/other", 3)
        assert len(pids(node)) == 1
        node.serve(probe(node).replace(str(node.program), str(other)))
        await node.reload(agent)
        await node.until(lambda: not is_there(pids(node)[0]) and (node.top / "others").exists())
