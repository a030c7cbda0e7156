"""Services that report the health of devices, in a running agent."""

import tomllib
from pathlib import Path

import pytest

from agent.config.load import SHIPPED
from tests.agent.test_health import CARDS, NPU, ONE, TWO, card, ill, reasons
from tests.kubelet.test_exporter import encode_response, exporter, left_behind
from tests.kubelet.test_health import NOT_SERVING, SERVING, Health


@pytest.fixture
async def node(rig):
    for address in CARDS:
        rig.tree.pci(address)
    await rig.kubelet.start()
    return rig


def socket(rig, more='every = "1h"'):
    return card(f'socket = "{rig.top}/{{address}}.sock"\n{more}')


async def test_a_service_says_that_its_device_is_ill_and_well_again(node):
    node.serve(socket(node))
    one, two = Health(), Health(watch=False)
    async with one.serve(f"{node.top}/{ONE}.sock"), two.serve(f"{node.top}/{TWO}.sock"), node.agent() as agent:
        await node.allocatable(NPU, 2)
        one.say(NOT_SERVING)
        await ill(node, ONE)
        assert reasons(agent) == {ONE: "state: the service reports NOT_SERVING", TWO: ""}
        one.say(SERVING)
        await ill(node)


@pytest.mark.parametrize(("policy", "ids"), [("unhealthy", {ONE, TWO}), ("healthy", set())])
async def test_one_that_is_not_there_is_asked_again(node, policy, ids):
    node.serve(socket(node, f'every = "100ms"\non_unknown = "{policy}"'))
    async with node.agent() as agent:
        if ids:
            missing = "state: {top}/{id}.sock: No such file or directory"
            expected = {address: missing.format(top=node.top, id=address) for address in CARDS}
            await node.until(lambda: reasons(agent) == expected)
        else:
            await node.allocatable(NPU, 2)
        server = Health()
        async with server.serve(f"{node.top}/{ONE}.sock"):
            await ill(node, *(ids - {ONE}))
            server.say(NOT_SERVING)
            await ill(node, *(ids | {ONE}))


async def test_an_exporter_comes_ends_and_is_taken_away(node):
    """As the class amd-gpu asks it: without one nothing fails, and one that ends heals nothing."""
    path = node.top / "exporter.sock"
    asks = tomllib.loads((Path(SHIPPED) / "amd-gpu.toml").read_text())["health"]["exporter"]
    asks |= {"socket": str(path), "of": "{address}", "every": "100ms"}
    node.serve(card("\n".join(f'{key} = "{said}"' for key, said in asks.items())))
    async with node.agent() as agent:
        await node.allocatable(NPU, 2)
        async with exporter(str(path), encode_response((ONE, "unhealthy"), (TWO, "healthy"))):
            await ill(node, ONE)
            assert reasons(agent) == {ONE: "state: the exporter reports unhealthy", TWO: ""}
            left_behind(path)
        asked = agent.tracker.counter_values.check_results.get(("state", "unknown"), 0)
        await node.until(lambda: agent.tracker.counter_values.check_results.get(("state", "unknown"), 0) > asked)
        assert node.kubelet.unhealthy(NPU) == {ONE}
        path.unlink()
        await ill(node)
        async with exporter(str(path), encode_response((ONE, "healthy"), (TWO, "unhealthy"))):
            await ill(node, TWO)
