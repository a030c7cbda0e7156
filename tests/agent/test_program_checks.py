"""Program checks in a running agent: from the output of a program to the list of the kubelet."""

import asyncio
import os
import time

import pytest

from tests.agent.test_health import CARDS, NPU, ONE, TWO, card, ill, reasons

SCRIPT = """#!/bin/sh
echo "$@" >> {top}/asked
[ -e {top}/$1.hang ] && kill -STOP $$
[ -e {top}/$1.ill ] || exit 0
cat {top}/$1.ill
exit 3
"""


@pytest.fixture
async def node(rig):
    for address in CARDS:
        rig.tree.pci(address)
    await rig.kubelet.start()
    rig.program = rig.top / "self-test"
    rig.program.write_text(SCRIPT.format(top=rig.top))
    rig.program.chmod(0o755)
    return rig


def run(rig, more="", every="100ms", argument="{address}"):
    return card(f'run = ["{rig.program}", "{argument}"]\nevery = "{every}"\n{more}')


def say(rig, what, address=ONE, end="ill"):
    (rig.top / "new").write_text(what)
    (rig.top / "new").rename(rig.top / f"{address}.{end}")  # whole at once: a program may be looking just now


def read_queries(rig):
    path = rig.top / "asked"
    return path.read_text().split() if path.exists() else []


async def test_a_program_says_that_a_device_is_ill_and_well_again(node):
    node.serve(run(node))
    async with node.agent() as agent:
        await node.allocatable(NPU, 2)
        say(node, "no\nclock")
        await ill(node, ONE)
        assert reasons(agent) == {ONE: "state: self-test: exit code 3: no clock", TWO: ""}
        os.unlink(node.top / f"{ONE}.ill")
        await ill(node)
    assert set(read_queries(node)) == {ONE, TWO}


async def test_nothing_is_offered_before_it_has_answered(node):
    node.serve(run(node, every="1h"))
    say(node, "never")
    async with node.agent() as agent:
        await node.until(lambda: reasons(agent) == {ONE: "state: self-test: exit code 3: never", TWO: ""})
        await ill(node, ONE)
    assert sorted(read_queries(node)) == sorted(CARDS)


async def test_several_looks_are_several_answers(node):
    node.serve(run(node, 'trip = "3 looks"\nrecover = "3 looks"'))
    async with node.agent() as agent:
        await node.allocatable(NPU, 2)
        before = read_queries(node).count(ONE)
        say(node, "no")
        await ill(node, ONE)
        assert read_queries(node).count(ONE) >= before + 3
        agent.tracker.request_look()
        await agent.tracker.wait_for_look()
        os.unlink(node.top / f"{ONE}.ill")
        before = read_queries(node).count(ONE)
        await ill(node)
        assert read_queries(node).count(ONE) >= before + 3


@pytest.mark.parametrize(("policy", "ids"), [("unhealthy", {ONE}), ("healthy", set()), ("keep", set())])
async def test_a_program_that_hangs_is_killed_and_says_nothing(node, policy, ids):
    node.serve(run(node, f'timeout = "500ms"\non_unknown = "{policy}"'))
    async with node.agent() as agent:
        await node.allocatable(NPU, 2)
        say(node, "", end="hang")
        hung = read_queries(node).count(ONE)
        await node.until(lambda: read_queries(node).count(ONE) > hung + 2)
        if ids:
            await ill(node, *ids)
            assert reasons(agent)[ONE] == "state: self-test: no end within 0.5 s"
        await ill(node, *ids)
        await node.until(lambda: agent.tracker.counter_values.check_results.get(("state", "timeout"), 0) > 0)
        os.unlink(node.top / f"{ONE}.hang")
        await ill(node)


async def test_a_program_that_reads_what_nobody_writes_is_killed_and_asked_again(node):
    pipe = node.top / "pipe"
    os.mkfifo(pipe)
    node.serve(card(f'run = ["/bin/cat", "{pipe}"]\nevery = "100ms"\ntimeout = "100ms"'))
    async with node.agent() as agent:
        await node.until(lambda: reasons(agent) == dict.fromkeys(CARDS, "state: cat: no end within 0.1 s"))
        pipe.unlink()
        pipe.touch()
        await node.allocatable(NPU, 2)


@pytest.mark.parametrize("jump", [-86400.0, 86400.0])
async def test_a_clock_that_is_set_turns_nothing_sooner_or_later(node, monkeypatch, jump):
    node.serve(run(node, 'trip = "3 looks"\nrecover = "3 looks"'))
    async with node.agent():
        await node.allocatable(NPU, 2)
        clock = time.time
        monkeypatch.setattr(time, "time", lambda: clock() + jump)
        before = read_queries(node).count(ONE)
        say(node, "no")
        await ill(node, ONE)
        assert read_queries(node).count(ONE) >= before + 3
        monkeypatch.undo()
        os.unlink(node.top / f"{ONE}.ill")
        await ill(node)


async def test_a_program_that_is_not_there_says_nothing_and_costs_no_other_check(node):
    more = '[resource.health.other]\nrun = ["/no/such"]\nevery = "100ms"'
    node.serve(run(node, more))
    async with node.agent() as agent:
        await node.until(lambda: set(reasons(agent).values()) == {"other: /no/such: No such file or directory"})
        say(node, "no")
        await node.until(lambda: reasons(agent)[ONE] == "state: self-test: exit code 3: no")


async def test_what_is_well_costs_no_look(node):
    node.serve(run(node))
    async with node.agent() as agent:
        await node.allocatable(NPU, 2)
        await agent.tracker.wait_for_look()
        looks = agent.counters.look_times.build_distribution().counts
        asks = len(read_queries(node))
        await node.until(lambda: len(read_queries(node)) > asks + 6)
        assert agent.counters.look_times.build_distribution().counts == looks


async def test_a_reload_asks_what_is_new_and_no_more_what_is_gone(node):
    node.serve(run(node))
    async with node.agent() as agent:
        await node.allocatable(NPU, 2)
        node.serve(run(node, argument="{vendor}"))
        await node.reload(agent)
        await node.until(lambda: "15b3" in read_queries(node))
        await node.allocatable(NPU, 2)
        agent.tracker.request_look()
        await agent.tracker.wait_for_look()
        known = len(read_queries(node))
        await node.until(lambda: len(read_queries(node)) > known + 4)
        assert set(read_queries(node)[known + 2 :]) == {"15b3"}


async def test_devices_that_ask_the_same_share_the_answer(node):
    node.serve(run(node, argument="all", every="1h"))
    async with node.agent():
        await node.allocatable(NPU, 2)
    assert read_queries(node) == ["all"]


async def test_the_agent_ends_though_a_program_does_not(node):
    say(node, "", end="hang")
    node.serve(run(node, 'timeout = "1h"'))
    async with node.agent():
        await node.until(lambda: ONE in read_queries(node))
        await asyncio.sleep(0)
