"""What the kubelet is told when it asks which devices it had better take: over real sockets."""

from agent.kubelet.messages import v1beta1
from tests.agent.rig import entry

CARD, PLAIN = "example.com/card", "example.com/plain"


def cards(prefer):
    give = 'give.env.CARDS = { value = "{address}", join = "," }'
    return f'[[resource]]\nname = "{CARD}"\nsource = "pci"\nid = "{{address}}"\nprefer = {prefer}\n{give}\n'


async def test_the_kubelet_asks_where_something_is_preferred(rig):
    """Two on node 0 and three on node 1: one request takes where most are free, the next what fits beside it."""
    for number in range(5):
        rig.tree.pci(f"0000:3b:{number:02x}.0", numa_node=f"{int(number >= 2)}\n")
    rig.plug("plain0")
    rig.serve(cards('[{ same = "numa" }]'), entry(PLAIN))
    await rig.kubelet.start()
    async with rig.agent():
        await rig.allocatable(CARD, 5)
        await rig.allocatable(PLAIN, 1)
        wants = {event.resource: event.detail["preferred"] for event in rig.kubelet.events.select("registered")}
        assert wants == {CARD: True, PLAIN: False}
        first = await rig.kubelet.allocate("p", "c", {CARD: 2})
        assert first.envs["CARDS"] == "0000:3b:02.0,0000:3b:03.0"
        second = await rig.kubelet.allocate("q", "c", {CARD: 2})
        assert second.envs["CARDS"] == "0000:3b:00.0,0000:3b:01.0"


async def test_a_choice_goes_by_the_newest_look(rig):
    """The same question before and after a card moved to the other node; nothing is read while it is answered."""
    for number in range(3):
        rig.tree.pci(f"0000:3b:{number:02x}.0", numa_node=f"{min(number, 1)}\n")
    rig.serve(cards('[{ same = "numa" }]'))
    await rig.kubelet.start()
    async with rig.agent() as agent:
        await rig.allocatable(CARD, 3)
        client = await rig.client(CARD)
        ids = [f"0000:3b:{number:02x}.0" for number in range(3)]

        async def preferred():
            ask = v1beta1.ContainerPreferredAllocationRequest(ids, [], 2)
            request = v1beta1.PreferredAllocationRequest(container_requests=[ask])
            (answer,) = (await client.peer.plugin.get_preferred_allocation(request)).container_responses
            return [ids.index(one) for one in answer.device_i_ds]

        assert await preferred() == [1, 2]
        rig.tree.file("/sys/bus/pci/devices/0000:3b:01.0/numa_node", "0\n")
        assert await preferred() == [1, 2]
        agent.tracker.request_look()
        await agent.tracker.wait_for_look()
        assert await preferred() == [0, 1]


async def test_cards_with_a_direct_link_go_together(rig):
    """Class amd-gpu: of three on one NUMA node two have an XGMI link, and the others meet on PCI Express alone."""
    tree = rig.tree
    tree.file("/sys/module/amdgpu/initstate", "live\n")
    kfd = tree.class_device("/sys/devices/virtual/kfd/kfd", "kfd", "kfd", 238, 0)
    links = {1: [(2, 2), (3, 11)], 2: [(1, 2), (3, 2)], 3: [(1, 11), (2, 2)]}
    for number, joined in links.items():
        card = tree.pci(f"0000:{number:02x}:00.0", driver="amdgpu", numa_node="0\n")
        tree.drm(card, number, 127 + number)
        node = f"{kfd}/topology/nodes/{number}"
        tree.file(f"{node}/properties", f"drm_render_minor {127 + number}\nlocation_id {number << 8}\ndomain 0\n")
        for link, (to, kind) in enumerate(joined):
            tree.file(f"{node}/io_links/{link}/properties", f"type {kind}\nnode_from {number}\nnode_to {to}\n")
    rig.serve('[[resource]]\nclass = "amd-gpu"\n')
    await rig.kubelet.start()
    async with rig.agent():
        await rig.allocatable("amd.com/gpu", 3)
        got = await rig.kubelet.allocate("p", "c", {"amd.com/gpu": 2})
        assert {name for name in got.devices if "render" in name} == {"/dev/dri/renderD128", "/dev/dri/renderD130"}
