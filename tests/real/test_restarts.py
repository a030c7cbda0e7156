"""The kubelet restarts while the machine changes: at the end its view equals the machine."""

import random

import pytest

from device_agent_lab.simulated.errors import PodRefused
from tests.agent.rig import BAR, FOO
from tests.agent.test_vfio import ALONE, DISK, FIRST, NIC, SECOND, SSD, install
from tests.real.kubelets import NOTHING
from tests.real.node import CARD, cards, split_ids, split_nodes

NODES = [f"foo{number}" for number in range(8)]


async def begun(eight):
    """All are listed, and in the checkpoint."""
    await eight.allocatable(FOO, 8)
    await eight.streaming(FOO)


@pytest.fixture
async def eight(node):
    node.plug(*NODES)
    node.serve(FOO)
    await node.kubelet.start()
    return node


@pytest.mark.parametrize("kill", [False, True])
async def test_checkpoint_against_what_has_changed(eight, kill):
    """Held, free and new devices change while no kubelet is there."""
    async with eight.agent() as agent:
        await begun(eight)
        held = (await eight.kubelet.admit("p", {FOO: 2}, {FOO: 1}))["c0"][FOO]
        (other,) = (await eight.kubelet.admit("q", {FOO: 1}))["c0"][FOO]
        for pod, container in (("p", "c0"), ("p", "c1"), ("q", "c0")):
            await eight.kubelet.begin(pod, container)
        taken = (await eight.kubelet.view())[FOO].allocated
        free = sorted(set(NODES) - taken)
        await eight.kubelet.down(kill=kill)
        eight.unplug(*held, free[0])
        eight.unplug(other)
        eight.replug(other)
        eight.plug("foo8")
        await eight.kubelet.up()
        there, away = split_nodes(eight.tree, [*NODES, "foo8"])
        await eight.kubelet.sees(FOO, there, away)
        refused = await eight.kubelet.pods_again()
        if kill and eight.real:  # the new process is handed its pods as after a reboot: what is broken is refused
            assert refused.keys() == {"p"}
            assert "previously allocated devices are no longer healthy" in refused["p"]
        else:
            assert refused == {}
            assert (await eight.kubelet.view())[FOO].allocated == taken
        given = await eight.kubelet.admit("new", {FOO: 2})
        assert given["c0"][FOO] <= there - {other}
        assert split_ids(agent) == (there, away)
        eight.replug(*away)
        await eight.kubelet.sees(FOO, {*there, *away})


@pytest.mark.timeout(900)
async def test_100_restarts_with_devices_flapping(eight):
    """A change at any moment of a restart: the kubelet knows in the end what the machine has."""
    chance = random.Random(eight.kind)
    async with eight.agent() as agent:
        await begun(eight)

        def change():
            name = chance.choice(NODES)
            if eight.tree.at(f"/dev/{name}").exists():
                eight.unplug(name)
            else:
                eight.replug(name)

        for number in range(100):
            change()
            await eight.kubelet.down(kill=number % 10 == 9)
            change()
            await eight.kubelet.up()
            change()
            there, away = split_nodes(eight.tree, NODES)
            await eight.kubelet.sees(FOO, there, away)
            assert split_ids(agent) == (there, away)
            assert eight.registers() == 1
            assert eight.kubelet.capacity(FOO) in (0, 8)  # never a part of the devices
        await eight.allocatable(FOO, len(there))
        assert len(eight.sockets()) == 1
        assert eight.kubelet.events.count("register_refused") == 0


async def test_change_between_register_and_the_first_list(eight):
    """The change right after a restart, at the moment when peers are deaf."""
    async with eight.agent():
        await begun(eight)
        for number in range(10):
            name = NODES[number % 8]
            await eight.kubelet.again()
            await eight.until(lambda: eight.registers() == 1)
            eight.unplug(name)
            await eight.kubelet.sees(FOO, set(NODES) - {name}, {name})
            eight.replug(name)
            await eight.kubelet.sees(FOO, NODES)


async def test_change_while_no_kubelet_is_there(eight):
    async with eight.agent():
        for name in NODES:
            await begun(eight)
            await eight.kubelet.down()
            eight.unplug(name)
            await eight.kubelet.up()
            await eight.kubelet.sees(FOO, set(NODES) - {name}, {name})
            await eight.kubelet.down()
            eight.replug(name)
            await eight.kubelet.up()


async def test_agent_is_down_while_the_kubelet_restarts(eight):
    """Running pods stay; the agent finds another kubelet when it comes back."""
    async with eight.agent():
        await begun(eight)
        held = (await eight.kubelet.admit("p", {FOO: 1}))["c0"][FOO]
        await eight.kubelet.begin("p")
    await eight.kubelet.again()
    assert await eight.kubelet.pods_again() == {}
    assert eight.kubelet.allocatable(FOO) == 0
    with pytest.raises(PodRefused, match="no healthy devices present"):
        await eight.kubelet.admit("q", {FOO: 1})
    async with eight.agent():
        await eight.kubelet.sees(FOO, NODES)
        assert (await eight.kubelet.view())[FOO].allocated == held
        assert (await eight.kubelet.begin("p")).devices.keys() == {f"/dev/{name}" for name in held}
        assert len((await eight.kubelet.admit("r", {FOO: 7}))["c0"][FOO] - held) == 7


async def test_82_reboot_admits_pods_once_registered(eight):
    """Both start again and no container runs: a pod gets its earlier device."""
    async with eight.agent():
        await begun(eight)
        held = await eight.kubelet.admit("p", {FOO: 3})
        await eight.kubelet.begin("p")
    await eight.kubelet.down(kill=True)
    async with eight.agent():
        await eight.kubelet.up(reboot=True)
        await begun(eight)
        assert await eight.kubelet.pods_again() == {}
        assert await eight.kubelet.admit("p", {FOO: 3}) == held


async def test_finished_init_container_needs_us_before_its_pod_is_admitted_again(eight):
    """kubernetes#124345: a restart of the kubelet, the agent late, and a pod that ran well is refused."""
    async with eight.agent():
        await begun(eight)
        for pod in ("early", "late"):
            await eight.kubelet.admit(pod, {FOO: 1}, init=[{FOO: 1}])
            await eight.kubelet.begin(pod)
        await eight.kubelet.again()
        await begun(eight)
        assert await eight.kubelet.pods_again() == {}  # we are as a rule there before
    await eight.kubelet.again()
    refused = await eight.kubelet.pods_again()
    assert refused.keys() == {"early", "late"}
    assert "no healthy devices present; cannot allocate unhealthy devices" in refused["late"]


async def test_44_agent_restart_lists_what_is_held_and_missing(eight):
    async with eight.agent():
        await begun(eight)
        (held,) = (await eight.kubelet.admit("p", {FOO: 1}))["c0"][FOO]
        await eight.kubelet.begin("p")
    eight.unplug(held)
    async with eight.agent():
        await eight.kubelet.sees(FOO, set(NODES) - {held}, {held})
        await eight.kubelet.again()
        await eight.kubelet.sees(FOO, set(NODES) - {held}, {held})
        assert await eight.kubelet.pods_again() == {}
        eight.replug(held)
        await eight.kubelet.sees(FOO, NODES)


@pytest.mark.parametrize("away", [False, True])
async def test_agent_restart_leaves_an_iommu_group_with_its_pod(node, away):
    """Two resources share the group: the second pod gets no function of it, with PodResources and without."""
    install(node)
    await node.kubelet.start()
    async with node.agent():
        await node.streaming(NIC, DISK)
        await node.allocatable(NIC, 3)
        await node.kubelet.admit("p", {DISK: 1})
        await node.kubelet.begin("p")
    if away:
        (node.pods / "kubelet.sock").rename(node.pods / "away.sock")
    async with node.agent() as agent:
        await node.kubelet.sees(NIC, {ALONE}, {FIRST, SECOND})
        assert (await node.kubelet.admit("q", {NIC: 1}))["c0"][NIC] == {ALONE}
        with pytest.raises(PodRefused):
            await node.kubelet.admit("r", {NIC: 1})
        if not away:
            await node.until(lambda: agent.devices_in_use.answered_at)
            await agent.tracker.wait_for_look()
        assert split_ids(agent, NIC) == ({ALONE}, {FIRST, SECOND})
        assert split_ids(agent, DISK) == ({SSD}, set())


async def test_56_grace_is_over_and_a_container_starts_once_we_are_back(eight):
    """Five minutes without the agent, and the kubelet forgets the resource until it comes back."""
    from device_agent_lab.simulated.errors import AllocationError

    async with eight.agent():
        await begun(eight)
        await eight.kubelet.admit("p", {FOO: 1})
        given = await eight.kubelet.begin("p")
    await eight.until(lambda: eight.kubelet.allocatable(FOO) == 0)
    await eight.kubelet.age(FOO, 290)
    assert (await eight.kubelet.begin("p")).devices == given.devices
    await eight.kubelet.age(FOO, 11)
    await eight.until(lambda: eight.kubelet.capacity(FOO) == 0)
    with pytest.raises(AllocationError, match="endpoint not found in cache for a registered resource"):
        await eight.kubelet.begin("p")
    with pytest.raises(PodRefused, match="cannot allocate unregistered device"):
        await eight.kubelet.admit("q", {FOO: 1})
    async with eight.agent():
        await begun(eight)
        assert (await eight.kubelet.begin("p")).devices == given.devices


# ---------------------------------------------------------------- devices with topology


@pytest.fixture
async def four(node, request):
    """Four cards on two NUMA nodes, with a policy."""
    node.new_kubelet(policy=request.param)
    node.addresses = [node.card(number, number % 2) for number in range(4)]
    node.serve(cards())
    await node.kubelet.start()
    return node


@pytest.mark.parametrize("four", ["restricted", "single-numa-node", "best-effort"], indirect=True)
async def test_42_held_device_gone_and_the_kubelet_restarts(four):  # fact 9
    """The kubelet would crash in its hints if the id had left the list."""
    async with four.agent() as agent:
        await four.allocatable(CARD, 4)
        (held,) = (await four.kubelet.admit("p", {CARD: 1}))["c0"][CARD]
        await four.kubelet.begin("p")
        rest = set(four.addresses) - {held}
        four.uncard(agent, held)
        await four.kubelet.sees(CARD, rest, {held})
        await four.kubelet.again()
        await four.kubelet.sees(CARD, rest, {held})
        assert await four.kubelet.pods_again() == {}
        assert len((await four.kubelet.admit("q", {CARD: 1}))["c0"][CARD] & rest) == 1
    async with four.agent():  # the agent has only its memory to know it from
        await four.kubelet.sees(CARD, rest, {held})
        await four.kubelet.again()
        await four.kubelet.sees(CARD, rest, {held})
        assert await four.kubelet.pods_again() == {}
        hints = await four.kubelet.placing(CARD, 1)
        assert [nodes for nodes, preferred in hints if preferred]
    assert four.kubelet.crashed is None


@pytest.mark.parametrize("four", ["restricted"], indirect=True)
async def test_42_taken_out_by_configuration_and_held(four):
    """A held device that no entry takes any more stays with its topology, over restarts of both."""
    async with four.agent() as agent:
        await four.allocatable(CARD, 4)
        (held,) = (await four.kubelet.admit("p", {CARD: 1}))["c0"][CARD]
        await four.kubelet.begin("p")
        four.serve(cards(more=f'exclude.it = {{ address = "{held}" }}'))
        await four.reload(agent)
        rest = set(four.addresses) - {held}
        await four.kubelet.sees(CARD, rest, {held})
        await four.kubelet.again()
        await four.kubelet.sees(CARD, rest, {held})
        assert await four.kubelet.pods_again() == {}
        four.serve(cards(name="example.com/bar", vendor="0xffff"))
        await four.reload(agent)
        await four.kubelet.sees(CARD, (), {held})
        await four.kubelet.again()
        await four.kubelet.sees(CARD, (), {held})
        assert await four.kubelet.pods_again() == {}


async def test_96_98_pod_resources_says_what_is_held(node, fast_release):
    """An absent device stays listed while the real PodResources names it, also after a kubelet restart."""
    node.plug("foo0", "foo1", "bar0")
    node.serve(FOO, BAR)
    await node.kubelet.start()
    async with node.agent() as agent:
        await node.allocatable(FOO, 2)
        (held,) = (await node.kubelet.admit("p", {FOO: 1}))["c0"][FOO]
        await node.kubelet.begin("p")
        node.serve(BAR)
        await node.reload(agent)
        await node.kubelet.sees(FOO, (), {held})
        for kill in (False, False):
            await node.kubelet.again(kill=kill)
            assert await node.kubelet.pods_again() == {}
            await node.kubelet.sees(FOO, (), {held})
        before = agent.devices_in_use.answered_at
        await node.until(lambda: agent.devices_in_use.answered_at != before)
        assert agent.devices_in_use.ids == {held}
        await node.kubelet.over("p")
        await node.until(lambda: not agent.devices_in_use.ids)
        await node.kubelet.seen(lambda view: held not in view.get(FOO, NOTHING).unhealthy)
