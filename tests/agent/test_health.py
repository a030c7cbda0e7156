"""Checks in a running agent: from a file that says something else to what the kubelet is told."""

import asyncio
import json
import signal

import pytest

from agent.core.inventory.dirty_set import ALL_DIRTY, DirtySet
from tests.agent.process import run_agent
from tests.agent.rig import entry
from tests.cli.conftest import device_agent

NPU = "acme.com/npu"
CARDS = {"0000:01:00.0": "/sys/devices/pci0000:00/0000:01:00.0", "0000:02:00.0": "/sys/devices/pci0000:00/0000:02:00.0"}
ONE, TWO = CARDS


def card(check, more=""):
    text = entry(NPU, f'match.vendor = "15b3"\n{more}\n[resource.health.state]\n{check}', give='env = { a = "b" }')
    return text.replace('{ node = "/dev/npu[0-9]*" }', '"pci"').replace('env = { a = "b" }', 'env.A = "b"')


@pytest.fixture
async def node(rig):
    for address in CARDS:
        rig.tree.pci(address, state="ready")
    await rig.kubelet.start()
    return rig


def say(rig, state, address=ONE):
    (rig.top / "new").write_text(state)
    (rig.top / "new").rename(rig.tree.at(f"{CARDS[address]}/state"))  # whole at once: the agent may look at any time


def reasons(agent):
    return {device.id: str(device.reason) for device in agent.registry.get_list(NPU).devices}


async def ill(rig, *ids):
    await rig.until(lambda: rig.kubelet.unhealthy(NPU) == set(ids))


async def test_what_sends_no_event_is_looked_at_as_often_as_it_is_said(node):
    node.serve(card('holds = { "./state" = "ready" }\nevery = "100ms"'))
    async with node.agent() as agent:
        await node.allocatable(NPU, 2)
        say(node, "broken")
        await ill(node, ONE)
        assert reasons(agent) == {ONE: 'state: ./state = "ready", here broken', TWO: ""}
        say(node, "ready")
        await ill(node)


async def test_what_takes_a_time_happens_though_nothing_else_does(node):
    node.serve(card('holds = { "./state" = "ready" }\ntrip = "300ms"\nrecover = "200ms"'))
    async with node.agent() as agent:
        await node.allocatable(NPU, 2)
        say(node, "broken")
        agent.tracker.request_look(DirtySet(frozenset({CARDS[ONE]})))
        await ill(node, ONE)
        say(node, "ready")
        agent.tracker.request_look(DirtySet(frozenset({CARDS[ONE]})))
        await ill(node)


async def test_the_kernel_s_event_of_a_device_is_a_look_at_it_and_at_no_other(node):
    node.serve(card('holds = { "./state" = "ready" }'))
    async with node.agent() as agent:
        await node.allocatable(NPU, 2)
        say(node, "broken")
        say(node, "broken", TWO)
        agent.tracker.request_look(DirtySet(frozenset({CARDS[TWO]})))
        await ill(node, TWO)
        agent.tracker.request_look(ALL_DIRTY)
        await ill(node, ONE, TWO)


async def test_a_fault_is_one_message_for_all_shares(node):
    node.serve(card('holds = { "./state" = "ready" }', "replicas = 4"))
    async with node.agent() as agent:
        await node.allocatable(NPU, 8)
        before = node.kubelet.events.count("list")
        say(node, "broken")
        say(node, "broken", TWO)
        agent.tracker.request_look(ALL_DIRTY)
        await node.allocatable(NPU, 0)
        assert node.kubelet.events.count("list") == before + 1


async def test_the_link_of_a_port_is_told_of_all_that_stands_on_it_and_of_nothing_else(rig):
    """By the interface's directory alone, as netlink says it: one message, and nobody else is looked at."""
    ports = [rig.tree.pci(address, driver="ice") for address in CARDS]
    for number, port in enumerate(ports):
        rig.tree.virtual_functions(port, f"0000:0{number + 1}:02.0", f"0000:0{number + 1}:02.1")
        rig.tree.netdev(port, f"eth{number}")
    link = "holds = { pf.netdev.carrier = true }\nreason = 'no link of {pf.netdev.name}'"
    rig.serve(card(link, "match.is_vf = true\nreplicas = 2"))
    await rig.kubelet.start()
    async with rig.agent() as agent:
        await rig.allocatable(NPU, 8)
        before = rig.kubelet.events.count("list")
        for number, port in enumerate(ports):
            rig.tree.file(f"{port}/net/eth{number}/carrier", "0")
        agent.tracker.request_look(DirtySet(frozenset({f"{ports[0]}/net/eth0"})))
        await rig.allocatable(NPU, 4)
        told = {"0000:01:02.0": "link of eth0", "0000:01:02.1": "link of eth0", "0000:02:02.0": "", "0000:02:02.1": ""}
        assert reasons(agent) == {id_: f"state: no {why}" if why else "" for id_, why in told.items()}
        assert rig.kubelet.events.count("list") == before + 1


async def test_a_member_that_fails_makes_the_whole_device_unhealthy(node):
    kit = 'group = { by = "vendor" }\nid = "kit-{vendor}"'
    node.serve(card('holds = { "./state" = "ready" }\nreason = "it says {state}"', f'{kit}\nlet.state = "./state"'))
    async with node.agent() as agent:
        await node.allocatable(NPU, 1)
        say(node, "broken", TWO)
        agent.tracker.request_look(DirtySet(frozenset({CARDS[TWO]})))
        await ill(node, "kit-15b3")
        assert reasons(agent) == {"kit-15b3": f"state: {TWO}: it says broken"}


async def test_a_slot_is_healthy_while_a_device_is_and_gives_none_that_is_not(node):
    checks = card('holds = { "./state" = "ready" }', "slots = 2").replace(
        'env.A = "b"', 'env.A = { value = "{address}", join = "," }'
    )
    node.serve(checks)
    async with node.agent() as agent:
        await node.allocatable(NPU, 2)
        say(node, "broken")
        agent.tracker.request_look(ALL_DIRTY)
        await agent.tracker.wait_for_look()
        assert set(reasons(agent).values()) == {""}
        options = await node.kubelet.allocate("pod", "c", {NPU: 1})
        assert options.envs == {"A": TWO}
        say(node, "broken", TWO)
        agent.tracker.request_look(ALL_DIRTY)
        await node.allocatable(NPU, 0)
        assert set(reasons(agent).values()) == {f'{ONE}: state: ./state = "ready", here broken'}


async def test_the_first_list_says_what_the_first_look_says(node):
    say(node, "broken")
    node.serve(card('holds = { "./state" = "ready" }'))
    async with node.agent():
        await node.streaming(NPU)
        assert node.kubelet.unhealthy(NPU) == {ONE}


async def test_the_first_list_says_it_whatever_time_it_takes_to_fail(node):
    """What was never well has nothing to be borne with: also after a restart, and also who is plugged in."""
    say(node, "broken")
    node.serve(card('holds = { "./state" = "ready" }\ntrip = "1h"\nrecover = "never"'))
    for _ in range(2):
        async with node.agent() as agent:
            await ill(node, ONE)
    async with node.agent() as agent:
        await node.streaming(NPU)
        say(node, "ready")
        agent.tracker.request_look(ALL_DIRTY)
        await ill(node)  # it had not failed yet, so that nobody has to clear anything


async def test_a_restart_condemns_nobody_who_was_well(node):
    """As long as he is borne with: an agent that begins anew is no reason to take a device from pods."""
    node.serve(card('holds = { "./state" = "ready" }\ntrip = "1h"'))
    async with node.agent():
        await node.allocatable(NPU, 2)
    assert json.loads((node.state / "state.json").read_text())["well"] == {NPU: [ONE, TWO]}
    say(node, "broken")
    async with node.agent() as agent:
        await agent.tracker.wait_for_look()
        await node.streaming(NPU)
        await ill(node)
    node.tree.file("/proc/sys/kernel/random/boot_id", "another")
    async with node.agent():
        await ill(node, ONE)


async def test_the_next_life_goes_on_where_the_last_one_ended(node):
    """Neither heals by a restart: what takes time to, and what never does."""
    checks = 'holds = { "./state" = "ready" }\ntrip = "1ms"\nrecover = "1h"'
    node.serve(card(checks))
    say(node, "broken")
    async with node.agent() as agent:
        await node.streaming(NPU)
        await ill(node, ONE)
        agent.tracker.request_look(ALL_DIRTY)
        await agent.tracker.wait_for_look()
    say(node, "ready")
    assert json.loads((node.state / "state.json").read_text())["failing"][NPU]
    async with node.agent() as agent:
        await ill(node, ONE)
        assert reasons(agent)[ONE] == 'state: ./state = "ready", here broken'
    node.serve(card(checks.replace("1h", "never")))
    async with node.agent():
        await ill(node, ONE)


async def test_a_reload_changes_what_it_takes_and_not_what_is(node):
    node.serve(card('holds = { "./state" = "ready" }\nrecover = "1h"'))
    say(node, "broken")
    async with node.agent() as agent:
        await node.streaming(NPU)
        say(node, "ready")
        node.serve(card('holds = { "./state" = "ready" }\nrecover = "2h"'))
        change = await node.reload(agent)
        assert change.changed_names == (NPU,)
        assert node.kubelet.unhealthy(NPU) == {ONE}
        node.serve(card('holds = { "./state" = "ready" }'))
        await node.reload(agent)
        await ill(node)


async def test_clear_begins_anew_and_what_is_still_so_fails_again(node):
    node.serve(card('holds = { "./state" = "ready" }\nlatch = true'))
    say(node, "broken")

    async def clear(*words):
        return await asyncio.to_thread(device_agent, "clear", *words, "--config", str(node.etc))

    async with run_agent(node) as process:
        await node.until(lambda: process.said("READY"))
        await node.until(node.control.exists)
        await ill(node, ONE)
        still = await clear(ONE)
        assert (still.returncode, still.stdout) == (
            1,
            f'{NPU} {ONE}: cleared: state; Unhealthy now: state: ./state = "ready", here broken\n',
        )
        say(node, "ready")
        other = await clear(ONE, "heat")
        assert (other.returncode, other.stdout.partition(";")[0]) == (1, f"{NPU} {ONE}: heat does not fail")
        done = await clear(ONE, "state", "-o", "json")
        assert done.returncode == 0, done.stderr
        (said,) = json.loads(done.stdout)["devices"]
        assert said == {"resource": NPU, "id": ONE, "cleared": ["state"], "health": "Healthy", "reason": None}
        await ill(node)
        again = await clear(ONE)
        assert (again.returncode, again.stdout) == (0, f"{NPU} {ONE}: no check fails; Healthy now\n")
        nobody = await clear("0000:99:00.0")
        assert (nobody.returncode, nobody.stdout) == (4, "")
        assert "no resource lists this device" in nobody.stderr
        process.send(signal.SIGTERM)
        assert await process.ended() == 0
    assert "cleared: state" in process.log
    assert (await clear(ONE)).returncode == 3


async def test_what_is_absent_is_cleared_for_good(node):
    node.serve(card('holds = { "./state" = "ready" }\nlatch = true'))
    say(node, "broken")
    async with node.agent() as agent:
        await node.streaming(NPU)
        node.tree.at(f"/sys/bus/pci/devices/{ONE}").unlink()
        agent.tracker.request_look(ALL_DIRTY)
        await node.until(lambda: reasons(agent).get(ONE) == "absent")
        (device, _) = agent.registry.get_list(NPU).devices
        assert await agent.tracker.clear(NPU, device, None) == {"state"}
    assert json.loads((node.state / "state.json").read_text())["failing"] == {}


async def test_clearing_says_what_it_asks_for(node):
    node.serve(card('holds = { "./state" = "ready" }', 'id = "{address}"\nreplicas = 2'))
    say(node, "broken")
    async with node.agent() as agent:
        await node.streaming(NPU)
        (device, _) = agent.registry.get_list(NPU).devices
        assert await agent.tracker.clear(NPU, device, "heat") == frozenset()
        assert await agent.tracker.clear("acme.com/other", device, None) == frozenset()
        assert await agent.tracker.clear(NPU, device, None) == {"state"}
        assert reasons(agent)[ONE]  # for it is still so
