"""Large numbers of devices, resources and pods, in the view of the kubelet."""

import pytest

from tests.agent.rig import FOO, entry
from tests.real.kubelets import HEAVY, NOTHING

pytestmark = [pytest.mark.timeout(900), pytest.mark.parametrize("kind", HEAVY)]


async def test_64_resources_at_once(node):
    names = [f"example.com/r{number:02}x" for number in range(64)]
    declared = (f"c 240:{n * 4 + d} /dev/r{n:02}x{d}\n" for n in range(64) for d in range(4))
    node.tree.file("/.device-nodes", "".join(declared))
    for number in range(64):
        for device in range(4):
            node.tree.file(f"/dev/r{number:02}x{device}")
    node.serve(*names)
    await node.kubelet.start()
    async with node.agent():
        for round_ in range(3):
            await node.until(lambda: node.kubelet.open_streams == 64)
            await node.kubelet.seen(lambda view: all(len(view.get(name, NOTHING).healthy) == 4 for name in names))
            node.unplug(*(f"r{number:02}x3" for number in range(64)))
            await node.kubelet.seen(lambda view: all(len(view.get(name, NOTHING).healthy) == 3 for name in names))
            assert all(len(seen.unhealthy) == 1 for seen in (await node.kubelet.view()).values())
            given = await node.kubelet.admit(f"p{round_}", dict.fromkeys(names, 1))
            assert given["c0"].keys() == set(names)
            node.replug(*(f"r{number:02}x3" for number in range(64)))
            assert node.registers() == 64
            await node.kubelet.again()
        await node.kubelet.seen(lambda view: all(len(view.get(name, NOTHING).healthy) == 4 for name in names))
        view = await node.kubelet.view()
        assert all(len(view[name].allocated) == 3 for name in names)
        assert node.kubelet.events.count("register_refused") == 0


async def test_5000_devices_in_one_resource(node):
    names = [f"foo{number}" for number in range(5000)]
    node.tree.file("/.device-nodes", "".join(f"c 240:{n} /dev/{name}\n" for n, name in enumerate(names)))
    for name in names:
        node.tree.file(f"/dev/{name}")
    node.serve(FOO)
    await node.kubelet.start()
    async with node.agent():
        await node.kubelet.sees(FOO, names)
        node.unplug(*names[::2])
        await node.kubelet.sees(FOO, names[1::2], names[::2])
        given = (await node.kubelet.admit("p", {FOO: 100}))["c0"][FOO]
        assert given < set(names[1::2])
        await node.kubelet.again()
        await node.kubelet.sees(FOO, names[1::2], names[::2])
        node.replug(*names[::2])
        await node.kubelet.sees(FOO, names)
        assert (await node.kubelet.view())[FOO].allocated == given


async def test_38_list_stays_within_what_the_kubelet_takes(node):
    """More devices than a message can hold: as many as fit are there, and the stream lives."""
    nodes = [f"foo{number}{'x' * 40}" for number in range(10)]
    node.plug(*nodes)
    node.serve(entry(FOO, "replicas = 9000", nodes="/dev/foo*"))
    await node.kubelet.start()
    async with node.agent() as agent:
        await node.streaming(FOO)
        listed = agent.registry.get_list(FOO)
        number = sum(len(device) for device in listed.devices)
        assert 50_000 < number < 90_000
        await node.allocatable(FOO, number)
        node.unplug(nodes[0])
        await node.until(lambda: node.kubelet.allocatable(FOO) < number)
        node.replug(nodes[0])
        await node.allocatable(FOO, number)
        assert node.kubelet.events.count("stream_ended") == 0
        assert node.registers() == 1
