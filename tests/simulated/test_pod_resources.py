"""The PodResources service."""

import asyncio
import os

import pytest
from grpclib import GRPCError
from grpclib.client import Channel
from grpclib.const import Status

from agent.core.struct import replace
from agent.kubelet.messages import v1
from device_agent_lab.simulated.pod_resources import TokenBucket
from tests.simulated.conftest import SHORT
from tests.simulated.tiny_plugin import device

FOO = "example.com/foo"


@pytest.fixture
def rate(request):
    return getattr(request, "param", SHORT.pod_resources_rate)


@pytest.fixture
async def serving(started, plugin, tmp_path, rate):
    kubelet = await started(
        pod_resources_directory=tmp_path / "pr", numa_nodes=(0, 1), limits=replace(SHORT, pod_resources_rate=rate)
    )
    foo = await plugin(
        kubelet, devices=[device("a", "Healthy", 0, 1), device("b", "Unhealthy", 0), device("c", "Healthy", 1)]
    )
    await foo.register()
    await kubelet.until(lambda: kubelet.lists)
    async with Channel(path=str(tmp_path / "pr" / "kubelet.sock")) as channel:
        yield kubelet, v1.PodResourcesListerStub(channel)


def entries(devices):
    return sorted(
        (d.resource_name, tuple(d.device_ids), tuple(n.id for n in d.topology.nodes) if d.topology else ())
        for d in devices
    )


async def test_one_entry_for_each_device_and_node(serving):
    kubelet, service = serving
    await kubelet.allocate("ns/p", "init", {FOO: 1}, init=True)
    await kubelet.allocate("ns/p", "c", {FOO: 2})
    (pod,) = (await service.list(v1.ListPodResourcesRequest())).pod_resources
    assert (pod.namespace, pod.name) == ("ns", "p")
    (container,) = pod.containers
    assert container.name == "c"
    assert entries(container.devices) == [(FOO, ("a",), (0,)), (FOO, ("a",), (1,)), (FOO, ("c",), (1,))]
    kubelet.remove_pod("ns/p")
    assert (await service.list(v1.ListPodResourcesRequest())).pod_resources == []
    assert kubelet.get_held_ids(FOO) == {}


async def test_allocatable_is_what_is_healthy(serving):
    kubelet, service = serving
    await kubelet.allocate("p", "c", {FOO: 1})
    answer = await service.get_allocatable_resources(v1.AllocatableResourcesRequest())
    assert entries(answer.devices) == [(FOO, ("a",), (0,)), (FOO, ("a",), (1,)), (FOO, ("c",), (1,))]


async def test_get(serving):
    kubelet, service = serving
    await kubelet.allocate("p", "c", {FOO: 1})
    answer = await service.get(v1.GetPodResourcesRequest(pod_name="p", pod_namespace="default"))
    assert answer.pod_resources.name == "p"
    with pytest.raises(GRPCError) as error:
        await service.get(v1.GetPodResourcesRequest(pod_name="q", pod_namespace="default"))
    assert (error.value.status, error.value.message) == (Status.UNKNOWN, "pod q in namespace default not found")


@pytest.mark.parametrize("rate", [0.001], indirect=True)  # however long the calls take, that is none more
async def test_the_rate_is_limited(serving):
    _, service = serving
    calls = (service.list(v1.ListPodResourcesRequest()) for _ in range(40))
    errors = [e for e in await asyncio.gather(*calls, return_exceptions=True) if isinstance(e, Exception)]
    assert len(errors) == 30
    assert {(e.status, e.message) for e in errors} == {(Status.RESOURCE_EXHAUSTED, "rejected by rate limit")}


def test_a_bucket_of_ten_at_a_hundred_a_second():
    now = [0.0]
    bucket = TokenBucket(100, 10, lambda: now[0])
    for _ in range(10):
        bucket.take()
    with pytest.raises(GRPCError):
        bucket.take()
    now[0] += 0.011
    bucket.take()
    with pytest.raises(GRPCError):
        bucket.take()


async def test_the_socket_is_renamed_into_place_at_each_start_and_left_behind(serving, tmp_path):
    kubelet, _ = serving
    path = tmp_path / "pr" / "kubelet.sock"
    inode = path.stat().st_ino
    await kubelet.stop()
    assert path.exists()
    await kubelet.start()
    assert path.stat().st_ino != inode
    assert os.listdir(tmp_path / "pr") == ["kubelet.sock"]
