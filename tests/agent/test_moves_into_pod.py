"""Devices that move into their pods, from the grant to the pod's end, over restarts of the agent."""

import json
import shutil

import pytest

from agent.core.grants import held_ids
from agent.core.inventory.dirty_set import DirtySet
from agent.scanners import source_kinds
from device_agent_lab.simulated.errors import PodRefused
from tests.agent.rig import FOO

ADDRESS = "0000:3b:00.2"
ENTRIES = {
    "net": 'source = "net"\nid = "{name}"\nmatch = { carrier = true }\ngive.env = { NAME = "{name}" }\n'
    "health = { link = { holds = { carrier = true } } }\nlimit = { per_container = 1 }\n",
    "pci": 'source = "pci"\nid = "{netdev.name}"\nmatch = { netdev.name = "eth0" }\n'
    'give.env = { NAME = { value = "{address}", join = "," } }\n',
}


class Node:
    """A function with an interface that comes and goes."""

    def __init__(self, rig):
        self.rig = rig
        self.directory = rig.tree.pci(ADDRESS, driver="mlx5_core")
        self.come()

    def come(self):
        """Whole before it is listed, as the kernel does it: the agent may look at any time."""
        tree, at = self.rig.tree, f"{self.directory}/net/eth0"
        tree.at("/sys/class/net").mkdir(parents=True, exist_ok=True)
        for file, text in {"type": "1\n", "carrier": "1\n", "uevent": ""}.items():
            tree.file(f"{at}/{file}", text)
        tree.link(f"{at}/subsystem", "/sys/class/net")
        tree.link("/sys/class/net/eth0", at)

    def go(self):
        self.rig.tree.at("/sys/class/net/eth0").unlink()
        shutil.rmtree(self.rig.tree.at(f"{self.directory}/net"))

    async def looked(self, agent):
        agent.tracker.request_look()
        await agent.tracker.wait_for_look()
        await agent.tracker.wait_for_look()


@pytest.fixture(params=ENTRIES)
async def node(rig, at_once, monkeypatch, request):
    monkeypatch.setattr(held_ids, "SURE_SECONDS", 0.3)  # longer than a grant takes to be named
    rig.serve(f'[[resource]]\nname = "{FOO}"\nmoves_into_pod = true\n{ENTRIES[request.param]}')
    await rig.kubelet.start()
    return Node(rig)


async def test_it_is_healthy_as_long_as_the_pod_has_it_and_then_not(node):
    kubelet = node.rig.kubelet
    async with node.rig.agent() as agent:
        await node.rig.allocatable(FOO, 1)
        await kubelet.allocate("pod", "c", {FOO: 1})
        lists = len(kubelet.lists.select(FOO))
        node.go()
        await node.looked(agent)
        assert agent.tracker.inventory.in_pod_keys
        assert len(kubelet.lists.select(FOO)) == lists
        kubelet.remove_pod("pod")
        await node.rig.until(lambda: not kubelet.healthy(FOO))
        assert not agent.tracker.inventory.in_pod_keys
        node.come()
        await node.looked(agent)
        await node.rig.allocatable(FOO, 1)


async def test_what_goes_while_it_is_looked_at_is_not_turned_down(node, monkeypatch):
    """Say for a check: it was listed, and when it is read there is nothing of it any more."""
    kubelet, going, listing = node.rig.kubelet, [], source_kinds.list_devices

    def listed(*asked):
        found = listing(*asked)
        if going:
            going.pop()()
        return found

    monkeypatch.setattr(source_kinds, "list_devices", listed)
    async with node.rig.agent() as agent:
        await node.rig.allocatable(FOO, 1)
        await kubelet.allocate("pod", "c", {FOO: 1})
        await agent.tracker.wait_for_look()
        (device,) = agent.registry.get_list(FOO).devices
        lists = len(kubelet.lists.select(FOO))
        going.append(node.go)
        await agent.tracker.wait_for_look(DirtySet(keys=frozenset({device.key})))
        assert agent.tracker.inventory.in_pod_keys == {device.key}
        await node.looked(agent)
        assert agent.tracker.inventory.in_pod_keys == {device.key}
        assert len(kubelet.lists.select(FOO)) == lists
        node.come()
        await node.looked(agent)
        assert not agent.tracker.inventory.in_pod_keys
        assert len(kubelet.lists.select(FOO)) == lists


async def test_back_before_the_pod_ends_nothing_is_told(node):
    kubelet = node.rig.kubelet
    async with node.rig.agent() as agent:
        await node.rig.allocatable(FOO, 1)
        await kubelet.allocate("pod", "c", {FOO: 1})
        lists = len(kubelet.lists.select(FOO))
        node.go()
        await node.looked(agent)
        node.come()
        await node.looked(agent)
        assert not agent.tracker.inventory.in_pod_keys
        kubelet.remove_pod("pod")
        await kubelet.allocate("other", "c", {FOO: 1})
        assert len(kubelet.lists.select(FOO)) == lists


@pytest.mark.parametrize("pod_resources", [True, False])
async def test_an_agent_that_starts_while_it_is_away_knows_it(node, pod_resources):
    kubelet = node.rig.kubelet
    if not pod_resources:
        (node.rig.pods / "kubelet.sock").unlink()
    async with node.rig.agent():
        await node.rig.allocatable(FOO, 1)
        await kubelet.allocate("pod", "c", {FOO: 1})
    assert json.loads((node.rig.state / "state.json").read_text())["held"] == ["eth0"]
    node.go()
    async with node.rig.agent() as agent:
        await node.rig.streaming(FOO)
        await node.looked(agent)
        await node.rig.until(lambda: kubelet.healthy(FOO) == {"eth0"})
        assert agent.tracker.inventory.in_pod_keys
        kubelet.remove_pod("pod")
        if pod_resources:
            await node.rig.until(lambda: not kubelet.healthy(FOO))


async def test_an_agent_that_starts_and_of_which_no_pod_holds_anything_waits_for_none(node):
    async with node.rig.agent():
        await node.rig.allocatable(FOO, 1)
    node.go()
    async with node.rig.agent() as agent:
        await node.looked(agent)
        assert not agent.tracker.inventory.in_pod_keys
        assert not node.rig.kubelet.healthy(FOO)


async def test_the_card_goes_with_it(node):
    kubelet = node.rig.kubelet
    async with node.rig.agent() as agent:
        await node.rig.allocatable(FOO, 1)
        await kubelet.allocate("pod", "c", {FOO: 1})
        node.go()
        await node.looked(agent)
        node.rig.tree.at(f"/sys/bus/pci/devices/{ADDRESS}").unlink()
        shutil.rmtree(node.rig.tree.at(node.directory))
        await node.looked(agent)
        await node.rig.until(lambda: kubelet.unhealthy(FOO) == {"eth0"})


async def test_while_it_is_away_nobody_else_gets_what_only_it_can_give(rig, at_once):
    rig.serve(f'[[resource]]\nname = "{FOO}"\nmoves_into_pod = true\nreplicas = 2\n{ENTRIES["net"]}')
    await rig.kubelet.start()
    node = Node(rig)
    async with rig.agent() as agent:
        await rig.allocatable(FOO, 2)
        await rig.kubelet.allocate("pod", "c", {FOO: 1})
        node.go()
        await node.looked(agent)
        with pytest.raises(PodRefused) as refused:
            await rig.kubelet.allocate("other", "c", {FOO: 1})
        assert "eth0: it is in the network namespace of the pod that had it" in str(refused.value)
        node.come()  # and nobody has looked yet
        await rig.kubelet.allocate("third", "c", {FOO: 1})
