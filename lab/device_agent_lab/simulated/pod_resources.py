"""The PodResources service: the devices of each pod, for clients on the node."""

import asyncio
from collections.abc import Callable, Iterable, Iterator

from grpclib import GRPCError
from grpclib.const import Status

from agent.kubelet.messages import v1
from device_agent_lab.simulated.admission import Admission
from device_agent_lab.simulated.checkpoint import NO_NODE, CheckpointEntry
from device_agent_lab.simulated.device_table import DeviceTable
from device_agent_lab.simulated.pod import Pod
from device_agent_lab.simulated.simulated_node import SimulatedNode


class TokenBucket:
    """The rate limit of the socket, shared by all clients and methods."""

    def __init__(self, rate: float, burst: int, clock: Callable[[], float]) -> None:
        self._rate = rate
        self._burst = burst
        self._clock = clock
        self._tokens = float(burst)
        self._at = clock()

    def take(self) -> None:
        current_time = self._clock()
        self._tokens = min(self._tokens + (current_time - self._at) * self._rate, self._burst)
        self._at = current_time
        if self._tokens < 1:
            raise GRPCError(Status.RESOURCE_EXHAUSTED, "rejected by rate limit")
        self._tokens -= 1


def _build_entries(holdings: Iterable[CheckpointEntry]) -> Iterator[v1.ContainerDevices]:
    """Yield one entry per device and NUMA node. A device on two nodes appears twice."""
    for entry in holdings:
        for node, ids in entry.by_node.items():
            for device_id in ids:
                yield _build_entry(entry.resource, device_id, None if node == NO_NODE else node)


def _build_entry(resource: str, device_id: str, node: int | None) -> v1.ContainerDevices:
    topology = None if node is None else v1.TopologyInfo(nodes=[v1.NumaNode(id=node)])
    return v1.ContainerDevices(resource_name=resource, device_ids=[device_id], topology=topology)


class PodResources(v1.PodResourcesListerBase):
    def __init__(self, node: SimulatedNode, admission: Admission, table: DeviceTable) -> None:
        self._node = node
        self._admission = admission
        self._table = table
        clock = asyncio.get_running_loop().time
        self._bucket = TokenBucket(node.limits.pod_resources_rate, node.limits.pod_resources_burst, clock)

    def _build_pod(self, pod: Pod) -> v1.PodResources:
        # An ordinary init container has ended before any request.
        containers = [
            v1.ContainerResources(
                name=c.name, devices=list(_build_entries(self._admission.pod_devices.find_entries(pod.key, c.name)))
            )
            for c in pod.containers.values()
            if c.kind != "init"
        ]
        return v1.PodResources(name=pod.name, namespace=pod.namespace, containers=containers)

    async def list(self, message: v1.ListPodResourcesRequest) -> v1.ListPodResourcesResponse:  # noqa: ARG002
        self._bucket.take()
        self._admission.drop_finished()
        listed = [
            pod for pod in self._node.pods.values() if pod.is_active or not self._node.release.lists_active_pods_only
        ]
        return v1.ListPodResourcesResponse(pod_resources=[self._build_pod(pod) for pod in listed])

    async def get_allocatable_resources(
        self,
        message: v1.AllocatableResourcesRequest,  # noqa: ARG002
    ) -> v1.AllocatableResourcesResponse:
        """Return the healthy devices, also those in use."""
        self._bucket.take()
        entries = [
            _build_entry(resource, device_id, node)
            for resource, ids in self._table.healthy.items()
            for device_id in sorted(ids)
            for node in self._table.devices[resource][device_id].nodes or (None,)
        ]
        return v1.AllocatableResourcesResponse(devices=entries)

    async def get(self, message: v1.GetPodResourcesRequest) -> v1.GetPodResourcesResponse:
        self._bucket.take()
        for pod in self._node.pods.values():
            if (pod.name, pod.namespace) == (message.pod_name, message.pod_namespace):
                return v1.GetPodResourcesResponse(pod_resources=self._build_pod(pod))
        text = f"pod {message.pod_name} in namespace {message.pod_namespace} not found"
        raise GRPCError(Status.UNKNOWN, text)
