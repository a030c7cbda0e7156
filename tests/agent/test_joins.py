"""A device and its partner, from the events of the host to the grant of a container."""

import pytest

from device_agent_lab.simulated.errors import PodRefused
from tests.agent.rig import FOO, entry

JOIN = """
id   = "{name}"
let  = { slot = { take = "foo{slot:int}", of = "name" } }
join.card.source = { node = "/dev/card*" }
join.card.on     = { slot = "slot" }
join.card.let    = { slot = { take = "card{slot:int}x", of = "name" } }
"""
GIVE = """
nodes = { it = "{node}", card = "{card.node}" }
env   = { CARDS = { value = "{card.name}", join = "," } }
"""


@pytest.fixture
async def node(rig):
    rig.plug("foo0", "foo1", "card0x")
    rig.serve(entry(FOO, JOIN, give=GIVE))
    await rig.kubelet.start()
    async with rig.agent() as agent:
        await rig.streaming(FOO)
        rig.running = agent
        yield rig


def list_reasons(node):
    return {device.id: str(device.reason) for device in node.running.registry.get_list(FOO).devices}


async def test_a_device_waits_for_its_partner_and_is_given_with_it(node):
    await node.allocatable(FOO, 1)
    assert list_reasons(node) == {"foo0": ""}
    node.plug("card1y")  # fits the pattern of the source, and has no slot
    node.plug("card1x")
    await node.allocatable(FOO, 2)
    options = await node.kubelet.allocate("pod", "c", {FOO: 2})
    assert set(options.devices) == {"/dev/foo0", "/dev/foo1", "/dev/card0x", "/dev/card1x"}
    assert options.envs == {"CARDS": "card0x,card1x"}


async def test_without_its_partner_a_listed_device_is_unhealthy_and_not_given(node):
    await node.allocatable(FOO, 1)
    node.unplug("card0x")
    await node.until(lambda: node.kubelet.unhealthy(FOO) == {"foo0"})
    assert "no card" in list_reasons(node)["foo0"]
    node.replug("card0x")
    await node.until(lambda: not node.kubelet.unhealthy(FOO))
    node.plug("card00x")  # as slot 0 too
    await node.until(lambda: node.kubelet.unhealthy(FOO) == {"foo0"})
    assert "several are: /dev/card00x, /dev/card0x" in list_reasons(node)["foo0"]
    with pytest.raises(PodRefused):
        await node.kubelet.allocate("pod", "c", {FOO: 1})
