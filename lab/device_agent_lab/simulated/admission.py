"""The device manager at the start of a container: hints, Allocate, PreStartContainer."""

import random
from collections.abc import Callable, Collection
from typing import cast

from agent.kubelet.messages import v1beta1
from device_agent_lab.simulated import hints as numa
from device_agent_lab.simulated.checkpoint import NO_NODE, CheckpointEntry
from device_agent_lab.simulated.clients import Client
from device_agent_lab.simulated.container_options import ContainerOptions, merge_options
from device_agent_lab.simulated.device_choice import Choice, shuffle
from device_agent_lab.simulated.device_table import DeviceTable, PluginEndpoint
from device_agent_lab.simulated.devices_of_pods import PodDevices
from device_agent_lab.simulated.errors import AllocationError, KubeletCrashed, RpcError
from device_agent_lab.simulated.events import KubeletEvents
from device_agent_lab.simulated.limits import Limits
from device_agent_lab.simulated.plugin_client import call_plugin
from device_agent_lab.simulated.pod import Container, Pod
from device_agent_lab.simulated.release import Release


class Admission:
    """The admission of one kubelet process. It fails with AllocationError or RpcError, or with KubeletCrashed."""

    def __init__(
        self,
        table: DeviceTable,
        pod_devices: PodDevices,
        *,
        events: KubeletEvents,
        release: Release,
        limits: Limits,
        chance: random.Random,
        numa_nodes: Collection[int],
        save: Callable[[], None],
        is_active: Callable[[str], bool],
    ) -> None:
        self._table = table
        self.pod_devices = pod_devices
        self._events = events
        self._release = release
        self._limits = limits
        self._chance = chance
        self._numa_nodes = numa_nodes
        self._save = save
        self._is_active = is_active
        # False after the start of a kubelet until it knows all its pods.
        self.sources_ready = True

    def is_known(self, resource: str) -> bool:
        return resource in self._table.healthy or resource in self.pod_devices.allocated

    def drop_finished(self) -> None:
        if self.sources_ready and self.pod_devices.drop_finished(self._is_active):
            self._save()

    def compute_hints(self, pod: str, container: str, resource: str, count: int) -> list[numa.Hint] | None:
        """Return the hints of GetTopologyHints for one resource. None means any node. An empty list means no node."""
        self.drop_finished()
        devices = self._table.devices.get(resource, {})
        if not numa.has_topology(devices.values()):
            return None
        reusable: Collection[str] = ()
        held_ids = self.pod_devices.get_ids(pod, container, resource)
        if held_ids:
            if len(held_ids) != count:
                return []
            available: Collection[str] = held_ids
        else:
            available = self._table.healthy.get(resource, set()) - self.pod_devices.allocated.get(resource, set())
            reusable = self.pod_devices.reusable.get(pod, {}).get(resource, set())
            if len(set(available) | set(reusable)) < count:
                return []
        if not self._release.crashes_on_lost_ids:
            available, reusable = ({i for i in ids if i in devices} for ids in (available, reusable))
        only_used = self._release.hints_from_used_nodes
        return numa.compute_hints(devices, available, reusable, count, self._numa_nodes, used_nodes_only=only_used)

    async def allocate(self, pod: Pod, container: Container, nodes: frozenset[int] | None) -> ContainerOptions:
        """Run steps 1 to 7 for each resource, in the order of a Go map. `nodes`: the choice of the topology manager."""
        reusable = self.pod_devices.get_reusable(pod.key)
        without = []
        is_clean = False
        for resource in shuffle(container.limits.keys(), self._chance):
            if not self.is_known(resource):
                without.append(resource)
                continue
            if not is_clean:
                self.drop_finished()
                is_clean = True
            await self._allocate_resource(pod, container, resource, reusable.get(resource, set()), nodes)
        (self.pod_devices.offer if container.kind == "init" else self.pod_devices.withdraw)(pod.key, container.name)
        return self.build_options(pod.key, container.name, tuple(without))

    def needs_devices(self, pod: Pod, container: Container, resource: str) -> bool:
        """Run step 4. Return whether devices must be chosen."""
        count, held_ids = container.limits[resource], self.pod_devices.get_ids(pod.key, container.name, resource)
        if held_ids is not None and len(held_ids) != count:
            raise AllocationError(
                f'pod "{pod.key}" container "{container.name}" changed request for resource "{resource}" '
                f"from {len(held_ids)} to {count}"
            )
        if not self.sources_ready and container.name in pod.running:
            return False
        healthy = self._table.healthy.get(resource)
        if healthy is None:
            raise AllocationError(f"cannot allocate unregistered device {resource}")
        if not healthy:
            raise AllocationError(f"no healthy devices present; cannot allocate unhealthy devices {resource}")
        if not healthy >= (held_ids or set()):
            raise AllocationError(
                f"previously allocated devices are no longer healthy; cannot allocate unhealthy devices {resource}"
            )
        return held_ids is None and count > 0

    async def _allocate_resource(
        self, pod: Pod, container: Container, resource: str, reusable: set[str], nodes: frozenset[int] | None
    ) -> None:
        if not self.needs_devices(pod, container, resource):
            return
        allocated = self.pod_devices.allocated.setdefault(resource, set())

        async def prefer(offered: frozenset[str], must: frozenset[str], size: int) -> Collection[str]:
            return await self._prefer(resource, offered, must, size)

        choice = Choice(container.limits[resource], allocated, self._chance)
        ids = await choice.choose(
            resource,
            self._table.healthy[resource],
            reusable,
            devices=self._table.devices.get(resource, {}),
            nodes=nodes,
            prefer=prefer,
        )
        endpoint = self._table.get_endpoint(resource)
        if endpoint is None:
            self.pod_devices.recount()
            raise AllocationError(f"unknown Device Plugin {resource}")
        order = shuffle(ids, self._chance)
        self._events.add("allocate", resource, pod=pod.key, container=container.name, ids=order)
        request = v1beta1.AllocateRequest(container_requests=[v1beta1.ContainerAllocateRequest(devices_ids=order)])
        try:
            answer = await call_plugin(_get_client(endpoint).connected_peer.plugin.allocate(request))
        except (RpcError, AllocationError):
            self.pod_devices.recount()
            raise
        if not answer.container_responses:
            # The real kubelet keeps the devices booked here until a pod is garbage-collected.
            raise AllocationError(f"no containers return in allocation response {answer}")
        by_node = self._group_by_node(resource, order)
        self.pod_devices.put(CheckpointEntry(pod.key, container.name, resource, by_node, answer.container_responses[0]))
        self._save()
        self._events.add("allocated", resource, pod=pod.key, container=container.name, ids=order)

    def _group_by_node(self, resource: str, ids: Collection[str]) -> dict[int, tuple[str, ...]]:
        ids_by_node: dict[int, list[str]] = {}
        devices = self._table.devices.get(resource, {})
        for device_id in ids:
            if device_id not in devices and self._release.crashes_on_lost_ids:
                raise KubeletCrashed(f"nil dereference after Allocate: {device_id} of {resource} is no longer listed")
            nodes = devices[device_id].nodes if device_id in devices else ()
            for node in nodes or (NO_NODE,):
                ids_by_node.setdefault(node, []).append(device_id)
        return {node: tuple(ids) for node, ids in ids_by_node.items()}

    async def _prefer(self, resource: str, offered: frozenset[str], must: frozenset[str], size: int) -> Collection[str]:
        """Return the preference of the plugin, or nothing if its options offer none."""
        endpoint = self._table.get_endpoint(resource)
        if endpoint is None:
            raise AllocationError(f"endpoint not found in cache for a registered resource: {resource}")
        if endpoint.options is None or not endpoint.options.get_preferred_allocation_available:
            return ()
        wish = v1beta1.ContainerPreferredAllocationRequest(
            available_deviceIDs=shuffle(offered, self._chance),
            must_include_deviceIDs=shuffle(must, self._chance),
            allocation_size=size,
        )
        self._events.add("preferred", resource, available=sorted(offered), must=sorted(must), size=size)
        request = v1beta1.PreferredAllocationRequest(container_requests=[wish])
        try:
            answer = await call_plugin(_get_client(endpoint).connected_peer.plugin.get_preferred_allocation(request))
        except RpcError as error:
            text = f"device plugin GetPreferredAllocation rpc failed with err: {error}"
            raise AllocationError(text) from None
        return answer.container_responses[0].device_i_ds if answer.container_responses else ()

    async def pre_start(self, pod: str, container: Container) -> None:
        """Call PreStartContainer before a start of a container, if the options require that."""
        for resource in shuffle(container.limits.keys(), self._chance):
            if not self.is_known(resource) or container.limits[resource] == 0:
                continue
            endpoint = self._table.get_endpoint(resource)
            if endpoint is None:
                raise AllocationError(f"endpoint not found in cache for a registered resource: {resource}")
            if endpoint.options is None or not endpoint.options.pre_start_required:
                continue
            ids = self.pod_devices.get_ids(pod, container.name, resource)
            if ids is None:
                raise AllocationError(
                    f"no devices found allocated in local cache for pod {pod}, container {container.name}, "
                    f"resource {resource}"
                )
            self._events.add("pre_start", resource, pod=pod, container=container.name, ids=sorted(ids))
            request = v1beta1.PreStartContainerRequest(devices_ids=shuffle(ids, self._chance))
            try:
                call = _get_client(endpoint).connected_peer.plugin.pre_start_container
                await call_plugin(call(request, timeout=self._limits.pre_start))
            except RpcError as error:
                raise AllocationError(f"device plugin PreStartContainer rpc failed with err: {error}") from None

    def has_missing_devices(self, pod: str, container: Container) -> bool:
        """Return whether a known resource has no recorded devices. Then the kubelet allocates before it starts the
        container.
        """
        return any(
            number and self.is_known(resource) and self.pod_devices.get_ids(pod, container.name, resource) is None
            for resource, number in container.limits.items()
        )

    def build_options(self, pod: str, container: str, without: tuple[str, ...] = ()) -> ContainerOptions:
        """Return the recorded answers, merged. The order of the resources is random."""
        by_resource = {entry.resource: entry for entry in self.pod_devices.find_entries(pod, container)}
        order = shuffle(by_resource.keys(), self._chance)
        return merge_options((by_resource[resource].answer for resource in order), without)


def _get_client(endpoint: PluginEndpoint) -> Client:
    if endpoint.stopped_at is not None or endpoint.connection is None:
        raise AllocationError("endpoint of the device plugin has been stopped")
    return cast("Client", endpoint.connection)
