"""The device manager at the start of a container: hints, Allocate, PreStartContainer."""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import cast

from agent.kubelet.messages import v1beta1
from device_agent_lab.simulated import hints as numa
from device_agent_lab.simulated.checkpoint import NO_NODE, CheckpointEntry
from device_agent_lab.simulated.clients import Client
from device_agent_lab.simulated.container_options import ContainerOptions, merge_options
from device_agent_lab.simulated.device_table import DeviceTable, ListedDevice, PluginEndpoint
from device_agent_lab.simulated.errors import AllocationError, KubeletCrashed, RpcError
from device_agent_lab.simulated.plugin_client import call_plugin
from device_agent_lab.simulated.pod import Container, Pod, PodDevices
from device_agent_lab.simulated.simulated_node import SimulatedNode


def filter_by_affinity(
    available: Collection[str], devices: Mapping[str, ListedDevice], nodes: frozenset[int] | None
) -> tuple[set[str], set[str], set[str]]:
    """Return the devices on the nodes, on other nodes, and without a node (filterByAffinity)."""
    if nodes is None or not any(device.nodes for device in devices.values()):
        return set(), set(), set(available)
    aligned: set[str] = set()
    unaligned: set[str] = set()
    homeless: set[str] = set()
    for device_id in available:
        device_nodes = devices[device_id].nodes
        (aligned if nodes & set(device_nodes) else unaligned if device_nodes else homeless).add(device_id)
    return aligned, unaligned, homeless


class Admission:
    """The admission of one kubelet process. It fails with AllocationError or RpcError, or with KubeletCrashed."""

    def __init__(
        self, node: SimulatedNode, table: DeviceTable, entries: Iterable[CheckpointEntry], save: Callable[[], None]
    ) -> None:
        self._node = node
        self._table = table
        self.pod_devices = PodDevices(entries)
        self._save = save
        # False after the start of a kubelet until it knows all its pods.
        self.sources_ready = True

    def is_known(self, resource: str) -> bool:
        return resource in self._table.healthy or resource in self.pod_devices.allocated

    def drop_finished(self) -> None:
        if self.sources_ready and self.pod_devices.drop_finished(self._is_active):
            self._save()

    def _is_active(self, pod: str) -> bool:
        return pod in self._node.pods and self._node.pods[pod].is_active

    def _shuffle(self, names: Collection[str]) -> list[str]:
        """Return names in a random order, as Go does. The same seed gives the same order."""
        return self._node.chance.sample(sorted(names), len(names))

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
        if not self._node.release.crashes_on_lost_ids:
            available, reusable = ({i for i in ids if i in devices} for ids in (available, reusable))
        only_used = self._node.release.hints_from_used_nodes
        return numa.compute_hints(devices, available, reusable, count, self._node.numa_nodes, used_nodes_only=only_used)

    async def allocate(self, pod: Pod, container: Container, nodes: frozenset[int] | None) -> ContainerOptions:
        """Run steps 1 to 7 for each resource, in the order of a Go map. `nodes`: the choice of the topology manager."""
        reusable = self.pod_devices.get_reusable(pod.key)
        without = []
        is_clean = False
        for resource in self._shuffle(container.limits.keys()):
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
        ids = await self._choose(resource, container.limits[resource], reusable, nodes)
        endpoint = self._table.get_endpoint(resource)
        if endpoint is None:
            self.pod_devices.recount()
            raise AllocationError(f"unknown Device Plugin {resource}")
        order = self._shuffle(ids)
        self._node.events.add("allocate", resource, pod=pod.key, container=container.name, ids=order)
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
        response = bytes(answer.container_responses[0])
        self.pod_devices.put(CheckpointEntry(pod.key, container.name, resource, by_node, response))
        self._save()
        self._node.events.add("allocated", resource, pod=pod.key, container=container.name, ids=order)

    async def _choose(
        self, resource: str, count: int, reusable: Collection[str], nodes: frozenset[int] | None
    ) -> set[str]:
        """Return the devices for a container (devicesToAllocate of dm/manager.go, after the checks).

        Each choice changes `allocated` at once, as in the kubelet.
        """
        allocated = self.pod_devices.allocated.setdefault(resource, set())
        chosen: set[str] = set()

        def take(ids: Collection[str]) -> bool:
            """Choose from these IDs, in the random order of a Go set. Return whether there are enough."""
            for device_id in self._shuffle(set(ids) - chosen):
                if len(chosen) < count:
                    allocated.add(device_id)
                    chosen.add(device_id)
            return len(chosen) >= count

        if reusable and take(reusable):
            return chosen
        available = self._table.healthy[resource] - allocated
        needed = count - len(chosen)
        if len(available) < needed:
            raise AllocationError(
                f"requested number of devices unavailable for {resource}. "
                f"Requested: {needed}, Available: {len(available)}"
            )
        aligned, unaligned, homeless = filter_by_affinity(available, self._table.devices.get(resource, {}), nodes)
        is_aligned_enough = needed < len(aligned)
        if not is_aligned_enough and take(aligned):
            return chosen
        offered, other_sets = (aligned, [aligned]) if is_aligned_enough else (available, [unaligned, homeless])
        wish = await self._prefer(resource, offered, frozenset(chosen), count)
        if any(take(ids) for ids in (offered.intersection(wish), *other_sets)):
            return chosen
        raise AllocationError(
            f"unexpectedly allocated less resources than required. Requested: {count}, Got: {len(chosen)}"
        )

    def _group_by_node(self, resource: str, ids: Collection[str]) -> dict[int, tuple[str, ...]]:
        ids_by_node: dict[int, list[str]] = {}
        devices = self._table.devices.get(resource, {})
        for device_id in ids:
            if device_id not in devices and self._node.release.crashes_on_lost_ids:
                raise KubeletCrashed(f"nil dereference after Allocate: {device_id} of {resource} is no longer listed")
            nodes = devices[device_id].nodes if device_id in devices else ()
            for node in nodes or (NO_NODE,):
                ids_by_node.setdefault(node, []).append(device_id)
        return {node: tuple(ids) for node, ids in ids_by_node.items()}

    def _get_endpoint(self, resource: str) -> PluginEndpoint:
        endpoint = self._table.get_endpoint(resource)
        if endpoint is None:
            raise AllocationError(f"endpoint not found in cache for a registered resource: {resource}")
        return endpoint

    async def _prefer(self, resource: str, available: set[str], must: frozenset[str], size: int) -> Collection[str]:
        """Return the preference of the plugin, or nothing if its options offer none."""
        offered = available | must
        endpoint = self._get_endpoint(resource)
        if endpoint.options is None or not endpoint.options.get_preferred_allocation_available:
            return ()
        wish = v1beta1.ContainerPreferredAllocationRequest(
            available_deviceIDs=self._shuffle(offered),
            must_include_deviceIDs=self._shuffle(must),
            allocation_size=size,
        )
        self._node.events.add("preferred", resource, available=sorted(offered), must=sorted(must), size=size)
        request = v1beta1.PreferredAllocationRequest(container_requests=[wish])
        try:
            answer = await call_plugin(_get_client(endpoint).connected_peer.plugin.get_preferred_allocation(request))
        except RpcError as error:
            text = f"device plugin GetPreferredAllocation rpc failed with err: {error}"
            raise AllocationError(text) from None
        return answer.container_responses[0].device_i_ds if answer.container_responses else ()

    async def pre_start(self, pod: str, container: Container) -> None:
        """Call PreStartContainer before a start of a container, if the options require that."""
        for resource in self._shuffle(container.limits.keys()):
            if not self.is_known(resource) or container.limits[resource] == 0:
                continue
            endpoint = self._get_endpoint(resource)
            if endpoint.options is None or not endpoint.options.pre_start_required:
                continue
            ids = self.pod_devices.get_ids(pod, container.name, resource)
            if ids is None:
                raise AllocationError(
                    f"no devices found allocated in local cache for pod {pod}, container {container.name}, "
                    f"resource {resource}"
                )
            self._node.events.add("pre_start", resource, pod=pod, container=container.name, ids=sorted(ids))
            request = v1beta1.PreStartContainerRequest(devices_ids=self._shuffle(ids))
            try:
                call = _get_client(endpoint).connected_peer.plugin.pre_start_container
                await call_plugin(call(request, timeout=self._node.limits.pre_start))
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
        answers = {entry.resource: entry.answer for entry in self.pod_devices.find_entries(pod, container)}
        order = self._shuffle(answers.keys())
        return merge_options((v1beta1.ContainerAllocateResponse.parse(answers[name]) for name in order), without)


def _get_client(endpoint: PluginEndpoint) -> Client:
    if endpoint.stopped_at is not None or endpoint.connection is None:
        raise AllocationError("endpoint of the device plugin has been stopped")
    return cast("Client", endpoint.connection)
