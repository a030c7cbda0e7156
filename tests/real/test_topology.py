"""NUMA hints of the lists of the agent, and the decisions of the topology manager."""

import pytest

from device_agent_lab.simulated.errors import PodRefused
from tests.real.node import CARD, OTHER, cards

POLICIES = ("restricted", "single-numa-node")


@pytest.fixture
async def serving(node):
    """Runs an agent with cards on these NUMA nodes, and others of another vendor."""
    running = []

    async def serve(policy, *at, others=()):
        node.new_kubelet(policy=policy)
        made = [node.card(number, where) for number, where in enumerate(at)]
        for number, where in enumerate(others, len(at)):
            node.card(number, where, vendor="0x8086\n")
        node.serve(cards(), cards(OTHER, "0x8086"))
        await node.kubelet.start()
        running.append(node.agent())
        node.last_agent = await running[0].__aenter__()
        await node.allocatable(CARD, len(at))
        await node.allocatable(OTHER, len(others))
        return made

    yield serve
    for agent in running:
        await agent.__aexit__(None, None, None)


def on(made, ids, at):
    return sorted(at[made.index(device)] for device in ids)


async def check_refusal(node, pod, *wants):
    with pytest.raises(PodRefused, match="Resources cannot be allocated with Topology locality") as error:
        await node.kubelet.admit(pod, *wants)
    assert error.value.reason == "TopologyAffinityError"


async def test_36_37_hints_are_as_the_devices_sit(node, serving):
    await serving("restricted", 0, 1, 0, 1, others=(0,))
    assert await node.kubelet.placing(CARD, 1) == [((0,), True), ((0, 1), False), ((1,), True)]
    assert await node.kubelet.placing(CARD, 2) == [((0,), True), ((0, 1), False), ((1,), True)]
    assert await node.kubelet.placing(CARD, 3) == [((0, 1), True)]
    assert await node.kubelet.placing(CARD, 5) == []
    assert (await node.kubelet.placing(OTHER, 1))[0] == ((0,), True)


@pytest.mark.parametrize("nowhere", [-1, 9])
@pytest.mark.parametrize("policy", POLICIES)
async def test_36_node_that_is_not_there_is_no_topology(node, serving, policy, nowhere):
    """-1, or a node that the machine does not have, would be "no way" to the kubelet: every pod refused."""
    await serving(policy, nowhere, nowhere)
    assert await node.kubelet.placing(CARD, 2) is None
    assert len((await node.kubelet.admit("p", {CARD: 2}))["c0"][CARD]) == 2


@pytest.mark.parametrize("policy", POLICIES)
async def test_37_some_without_topology_means_none_with(node, serving, policy):
    """The kubelet ignores devices without topology if others have one: no pod could get them."""
    await serving(policy, 0, -1, 1)
    assert await node.kubelet.placing(CARD, 3) is None
    assert len((await node.kubelet.admit("p", {CARD: 3}))["c0"][CARD]) == 3


async def test_single_numa_node_admits_what_fits_one_node(node, serving):
    at = (0, 0, 1, 1, 1)
    made = await serving("single-numa-node", *at)
    three = (await node.kubelet.admit("three", {CARD: 3}))["c0"][CARD]
    assert on(made, three, at) == [1, 1, 1]
    await check_refusal(node, "more", {CARD: 3})
    two = (await node.kubelet.admit("two", {CARD: 2}))["c0"][CARD]
    assert on(made, two, at) == [0, 0]
    assert not two & three


async def test_restricted_admits_what_no_fewer_nodes_could_hold(node, serving):
    made = await serving("restricted", 0, 0, 1, 1)
    assert len((await node.kubelet.admit("three", {CARD: 3}))["c0"][CARD]) == 3
    assert len((await node.kubelet.admit("last", {CARD: 1}))["c0"][CARD]) == 1
    assert (await node.kubelet.view())[CARD].allocated == set(made)


@pytest.mark.parametrize("policy", POLICIES)
async def test_two_halves_are_refused(node, serving, policy):
    made = await serving(policy, 0, 0, 1, 1)
    pods = {}
    for number in range(4):
        (device,) = (await node.kubelet.admit(f"p{number}", {CARD: 1}))["c0"][CARD]
        pods[device] = f"p{number}"
    for device in (made[0], made[2]):  # one is free on each node
        await node.kubelet.over(pods[device])
    await check_refusal(node, "two", {CARD: 2})
    await node.kubelet.over(pods[made[1]])
    assert (await node.kubelet.admit("again", {CARD: 2}))["c0"][CARD] == {made[0], made[1]}


@pytest.mark.parametrize("policy", POLICIES)
async def test_two_resources_on_one_node(node, serving, policy):
    at = (0, 0, 1)
    made = await serving(policy, *at, others=(1,))
    given = (await node.kubelet.admit("p", {CARD: 1, OTHER: 1}))["c0"]
    assert on(made, given[CARD], at) == [1]
    await node.kubelet.over("p")
    await check_refusal(node, "q", {CARD: 2, OTHER: 1})


@pytest.mark.parametrize("policy", POLICIES)
async def test_unplugged_cards_are_not_counted_on(node, serving, policy):
    at = (0, 0, 1)
    made = await serving(policy, *at)
    node.uncard(node.last_agent, made[0])
    await node.allocatable(CARD, 2)
    await check_refusal(node, "two", {CARD: 2})
    for number in range(2):
        await node.kubelet.admit(f"p{number}", {CARD: 1})


async def test_best_effort_admits_all(node, serving):
    await serving("best-effort", 0, 0, 1, 1)
    assert len((await node.kubelet.admit("p", {CARD: 3}))["c0"][CARD]) == 3
    assert len((await node.kubelet.admit("q", {CARD: 1}))["c0"][CARD]) == 1


async def test_containers_of_a_pod_are_placed_one_by_one(node, serving):
    at = (0, 0, 1, 1)
    made = await serving("single-numa-node", *at)
    given = await node.kubelet.admit("p", {CARD: 2}, {CARD: 2}, init=[{CARD: 2}])
    assert {tuple(on(made, given[name][CARD], at)) for name in ("c0", "c1")} == {(0, 0), (1, 1)}
    assert given["i0"][CARD] == given["c0"][CARD]
