"""NUMA hints, and what they do to an allocation."""

import pytest

from device_agent_lab.simulated.device_table import ListedDevice
from device_agent_lab.simulated.errors import KubeletCrashed, PodRefused
from device_agent_lab.simulated.hints import Hint, compute_hints, merge_hints
from tests.simulated.tiny_plugin import device

FOO = "example.com/foo"


def make_devices(**nodes):
    return {name: ListedDevice(name, "Healthy", tuple(at)) for name, at in nodes.items()}


def list_hints(devices, wanted, numa_nodes=(0, 1)):
    return [(sorted(h.nodes), h.preferred) for h in compute_hints(devices, devices.keys(), (), wanted, numa_nodes)]


def test_one_of_two_nodes():
    assert list_hints(make_devices(a=[0], b=[1]), 1) == [([0], True), ([1], True), ([0, 1], False)]
    assert list_hints(make_devices(a=[0], b=[1]), 2) == [([0, 1], True)]


@pytest.mark.parametrize("node", [-1, 9])
def test_nodes_that_are_not_there_give_no_hint(node):
    assert list_hints(make_devices(a=[node]), 1) == []


def test_a_device_on_several_nodes_counts_for_each():
    assert list_hints(make_devices(a=[0, 1]), 1) == [([0], True), ([1], True), ([0, 1], False)]


def test_devices_without_topology_are_invisible():
    assert list_hints(make_devices(a=[0], b=[]), 2) == []


def test_merging():
    two = [Hint(frozenset({0}), True), Hint(frozenset({1}), True), Hint(frozenset({0, 1}), False)]
    one = [Hint(frozenset({1}), True), Hint(frozenset({0, 1}), False)]
    assert merge_hints({"a": two, "b": one}, (0, 1), "restricted") == Hint(frozenset({1}), True)
    assert merge_hints({"a": two, "b": []}, (0, 1), "restricted").preferred is False
    assert merge_hints({"a": two, "b": None}, (0, 1), "restricted").preferred is True
    assert merge_hints({}, (0, 1), "restricted") == Hint(None, True)
    assert merge_hints({"a": [Hint(frozenset({0, 1}), True)]}, (0, 1), "single-numa-node").preferred is False


@pytest.fixture
def serving(serving):
    """On two NUMA nodes."""

    async def make(*devices, policy="none", **options):
        return await serving(*devices, how={"topology_policy": policy, "numa_nodes": (0, 1)}, **options)

    return make


async def test_of_a_kubelet(serving):
    kubelet, foo = await serving(device("a"))
    assert kubelet.hints(FOO, 1) is None
    foo.set(device("a", "Healthy", -1))
    await kubelet.until(lambda: len(kubelet.lists) == 2)
    assert kubelet.hints(FOO, 1) == []
    foo.set(device("a", "Healthy", 1))
    await kubelet.until(lambda: len(kubelet.lists) == 3)
    assert kubelet.hints(FOO, 1) == [Hint(frozenset({1}), True)]
    assert kubelet.hints(FOO, 2) == []


async def test_aligned_devices_are_given_and_preference_chooses_among_them(serving):
    devices = [device(f"{node}{i}", "Healthy", node) for node in (0, 1) for i in range(3)]
    kubelet, foo = await serving(*devices, policy="single-numa-node", get_preferred_allocation_available=True)
    await kubelet.allocate("p", "c", {FOO: 2})
    assert len({device_id[0] for device_id in foo.allocated[0]}) == 1
    assert len({device_id[0] for device_id in foo.preferred[0].available_deviceIDs}) == 1
    # The three of the other node are just enough: nobody is asked.
    await kubelet.allocate("q", "c", {FOO: 3})
    assert len(foo.preferred) == 1


async def test_a_strict_policy_refuses_what_fits_nowhere(serving):
    kubelet, _ = await serving(device("a", "Healthy", 0), device("b", "Healthy", 1), policy="single-numa-node")
    with pytest.raises(PodRefused, match="TopologyAffinityError"):
        await kubelet.allocate("p", "c", {FOO: 2})


async def test_node_minus_one_is_refused_by_a_strict_policy(serving):
    kubelet, _ = await serving(device("a", "Healthy", -1), policy="restricted")
    with pytest.raises(PodRefused, match="TopologyAffinityError"):
        await kubelet.allocate("p", "c", {FOO: 1})


async def test_a_held_id_that_vanished_crashes_the_next_computation(serving, plugin):
    kubelet, foo = await serving(device("a", "Healthy", 0), device("b", "Healthy", 1), policy="best-effort")
    await kubelet.allocate("p", "c", {FOO: 2})
    await kubelet.restart()
    foo.set()
    again = await plugin(kubelet, devices=[device("b", "Healthy", 1)])
    await again.register()
    await kubelet.until(lambda: kubelet.healthy(FOO))
    with pytest.raises(KubeletCrashed, match="a is held or free, but no longer listed"):
        await kubelet.readmit()
    assert kubelet.crashed


async def test_a_held_id_listed_as_unhealthy_does_not(serving, plugin):
    kubelet, _ = await serving(device("a", "Healthy", 0), policy="best-effort")
    await kubelet.allocate("p", "c", {FOO: 1})
    await kubelet.restart()
    again = await plugin(kubelet, devices=[device("a", "Unhealthy", 0)])
    await again.register()
    await kubelet.until(lambda: kubelet.unhealthy(FOO))
    assert await kubelet.readmit() == {}
