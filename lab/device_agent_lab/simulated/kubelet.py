"""A kubelet for tests of device plugins. Models the device manager of 1.30 to 1.37.

    async with Kubelet(tmp_path) as kubelet:
        ...                                   # the plugin registers at kubelet.socket
        await kubelet.until(lambda: kubelet.allocatable("example.com/foo") == 2)
        options = await kubelet.allocate("pod", "container", {"example.com/foo": 1})
        await kubelet.restart()

docs/fake-kubelet.md documents the behaviour and the limits.
"""

import asyncio
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Literal, Self, TypeVar

from device_agent_lab.simulated import hints as numa
from device_agent_lab.simulated.clients import Client
from device_agent_lab.simulated.container_options import ContainerOptions
from device_agent_lab.simulated.device_table import DeviceTable, NodeStatus
from device_agent_lab.simulated.errors import AllocationError, KubeletCrashed, KubeletStopped, PodRefused, RpcError
from device_agent_lab.simulated.kubelet_process import KubeletProcess
from device_agent_lab.simulated.pod import Container, Kind, Pod, PodDevices
from device_agent_lab.simulated.simulated_node import SimulatedNode

T = TypeVar("T")


class Kubelet(SimulatedNode):
    """A kubelet that can restart, and pods that outlive its restarts: the device part of the real sync loop."""

    crashed: str | None = None
    _process: KubeletProcess | None = None
    _task: asyncio.Task[None] | None = None

    # ------------------------------------------------------------ start and stop

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    @property
    def running(self) -> bool:
        return self._process is not None

    async def start(self, *, wipe: bool = True, listen_after: float = 0.0) -> None:
        """Start. With `wipe=False` the sockets of plugins stay. `listen_after` seconds pass between bind and listen."""
        if self._process is not None:
            raise RuntimeError("the kubelet is running")
        self.crashed = None
        process = KubeletProcess(self, wipe=wipe)
        try:
            await asyncio.sleep(listen_after)
            process.listen()
        except BaseException:
            await process.close()
            raise
        self._process = process
        # Not in a TaskGroup: start and stop may run in different tasks, as in pytest.
        self._task = asyncio.create_task(process.run(), name="simulated kubelet")
        self._task.add_done_callback(lambda _: self.events.wake())
        ready = asyncio.create_task(process.ready.wait())
        await asyncio.wait({ready, self._task}, return_when=asyncio.FIRST_COMPLETED)
        if not ready.done():
            ready.cancel()
            await self.stop()

    async def stop(self, kind: Literal["term", "kill"] = "term") -> None:
        """End all connections. kubelet.sock and the sockets of plugins stay. Do nothing if the kubelet is stopped."""
        process, task = self._process, self._task
        if process is None or task is None:
            return
        self._process = self._task = None
        if kind == "kill":
            process.drop()
        task.cancel()
        await asyncio.wait({task})
        self.events.add("stopped", signal=kind)
        if not task.cancelled() and (error := task.exception()) is not None:
            raise error

    async def restart(
        self, *, wipe: bool = True, gap: float = 0.0, kind: Literal["term", "kill"] = "term", listen_after: float = 0.0
    ) -> None:
        await self.stop(kind)
        await asyncio.sleep(gap)
        await self.start(wipe=wipe, listen_after=listen_after)

    def _get_process(self) -> KubeletProcess:
        if self.crashed is not None:
            raise KubeletCrashed(self.crashed)
        if self._process is None:
            raise KubeletStopped("no kubelet is running")
        return self._process

    async def until(self, condition: Callable[[], T], timeout: float = 10.0) -> T:  # noqa: ASYNC109
        """Return the first true value of `condition`, which is evaluated after every event.

        Raises:
            TimeoutError: not within `timeout` seconds. The text shows the last events.
        """

        def look() -> T:
            if self.crashed is not None:
                raise KubeletCrashed(self.crashed)
            if self._task is not None and self._task.done() and not self._task.cancelled():
                self._task.result()
            return condition()

        return await self.events.until(look, timeout)

    # ------------------------------------------------------------ state

    @property
    def _table(self) -> DeviceTable:
        return DeviceTable(self.clock, 0.0) if self._process is None else self._process.table

    @property
    def _pod_devices(self) -> PodDevices:
        return PodDevices() if self._process is None else self._process.admission.pod_devices

    def status(self) -> NodeStatus:
        """Return the report of the node. Each call forgets resources after their grace period, as the real one does."""
        return self._table.compute_status()

    def capacity(self, resource: str) -> int:
        return self.status().capacity.get(resource, 0)

    def allocatable(self, resource: str) -> int:
        return self.status().allocatable.get(resource, 0)

    def healthy(self, resource: str) -> frozenset[str]:
        return frozenset(self._table.healthy.get(resource, ()))

    def unhealthy(self, resource: str) -> frozenset[str]:
        return frozenset(self._table.unhealthy.get(resource, ()))

    def is_known(self, resource: str) -> bool:
        """Return whether the kubelet knows the resource. If not, a pod with this resource runs without a device."""
        return self._process is not None and self._process.admission.is_known(resource)

    def get_held_ids(self, resource: str) -> dict[str, tuple[str, str]]:
        """Return the held IDs as ID: (pod, container)."""
        entries = self._pod_devices.list_entries()
        return {i: (entry.pod, entry.container) for entry in entries if entry.resource == resource for i in entry.ids}

    def get_allocated_ids(self, resource: str) -> frozenset[str]:
        """Return the IDs that the kubelet counts as allocated. More than the held IDs: devices leaked."""
        return frozenset(self._pod_devices.allocated.get(resource, ()))

    def streams(self, resource: str) -> int:
        """Return the number of open ListAndWatch streams of the resource."""
        return len(self._find_clients(resource))

    def connections(self) -> int:
        """Return the number of connections to plugins, including those that the real kubelet would leak."""
        return 0 if self._process is None else len(self._process.clients.open)

    def hints(self, resource: str, count: int, *, pod: str = "", container: str = "") -> list[numa.Hint] | None:
        """Return the hints for a new container, or for one with devices. None is any node, an empty list no node."""
        return self._get_process().admission.compute_hints(pod, container, resource, count)

    # ------------------------------------------------------------ streams

    def _find_clients(self, resource: str) -> list[Client]:
        return [] if self._process is None else self._process.clients.find_streaming(resource)

    def stop_reading(self, resource: str) -> None:
        """Simulate a slow kubelet: the streams stay open, but are not read."""
        for client in self._find_clients(resource):
            client.reading.clear()

    def resume_reading(self, resource: str) -> None:
        for client in self._find_clients(resource):
            client.reading.set()

    def cancel_stream(self, resource: str, index: int = 0) -> None:
        """Send RST_STREAM to a stream. 0 is the oldest, -1 the newest."""
        self._find_clients(resource)[index].cancel_stream()

    async def open_stream(self, resource: str) -> None:
        """Open a second connection and stream at the newest socket, as a duplicate registration does."""
        socket = self._find_clients(resource)[-1].socket
        await self._get_process().clients.connect(resource, socket, allow_duplicate=True)

    # ------------------------------------------------------------ pods

    async def allocate(
        self,
        pod: str,
        container: str,
        limits: Mapping[str, int],
        *,
        init: bool = False,
        restartable: bool = False,
    ) -> ContainerOptions:
        """Admit one container and return its options.

        Add the containers of a pod in the order of admission: init containers first. `restartable` with `init` is a
        sidecar.

        Raises:
            PodRefused: final for the pod. Its devices are free again.
        """
        kind: Kind = "app" if not init else "sidecar" if restartable else "init"
        async with self.sync_loop:
            self._get_process()
            pod_state = self.pods.get(pod)
            if pod_state is None or not pod_state.is_active:
                pod_state = self.pods[pod] = Pod(pod)
            pod_state.containers[container] = Container(container, dict(limits), kind)
            options = await self._admit(pod_state, pod_state.containers[container])
            if kind != "init":
                pod_state.running.add(container)
            return options

    async def _admit(self, pod: Pod, container: Container) -> ContainerOptions:
        process = self._get_process()
        try:
            nodes = self._choose_nodes(process, pod, container)
            return await process.admission.allocate(pod, container, nodes)
        except KubeletCrashed as crash:
            self.crashed = str(crash)
            self.events.add("crashed", reason=self.crashed)
            await self.stop("kill")
            raise
        except PodRefused as refused:
            self._refuse(pod, refused)
            raise
        except (AllocationError, RpcError) as error:
            if process is not self._process:
                raise KubeletStopped("the kubelet went away during admission") from error
            final = PodRefused("UnexpectedAdmissionError", f"Allocate failed due to {error}, which is unexpected")
            self._refuse(pod, final)
            raise final from error

    def _choose_nodes(self, process: KubeletProcess, pod: Pod, container: Container) -> frozenset[int] | None:
        policy, nodes = self.topology_policy, self.numa_nodes
        if policy == "none":
            return None
        hints = {
            resource: process.admission.compute_hints(pod.key, container.name, resource, number)
            for resource, number in container.limits.items()
            if process.admission.is_known(resource)
        }
        hint = numa.merge_hints(hints, nodes, policy)
        if not numa.is_admitted(hint, policy):
            raise PodRefused("TopologyAffinityError", "Resources cannot be allocated with Topology locality")
        return hint.nodes

    def _refuse(self, pod: Pod, refused: PodRefused) -> None:
        pod.phase, pod.message = "Failed", f"{refused.reason}: {refused.message}"
        pod.running.clear()
        self.events.add("pod_refused", pod=pod.key, reason=refused.reason, message=refused.message)

    async def readmit(self, *, reboot: bool = False) -> dict[str, str]:
        """Handle the pods after a start of the kubelet. Return {pod: message} of the refused ones.

        After a restart the containers continue to run. After a reboot every container is admitted again.
        """
        process = self._get_process()
        process.admission.sources_ready = False
        refused = {}
        async with self.sync_loop:
            for pod in [pod for pod in self.pods.values() if pod.is_active]:
                if reboot:
                    pod.running.clear()
                try:
                    for container in pod.containers.values():
                        await self._admit(pod, container)
                        if container.kind != "init":
                            pod.running.add(container.name)
                except PodRefused as error:
                    refused[pod.key] = str(error)
        process.admission.sources_ready = True
        return refused

    async def pre_start(self, pod: str, container: str) -> None:
        """Call PreStartContainer of each resource that requires it.

        Raises:
            AllocationError: the container does not start yet.
        """
        await self._get_process().admission.pre_start(pod, self.pods[pod].containers[container])

    async def start_container(self, pod: str, container: str) -> ContainerOptions:
        """Start a container of an admitted pod, or start it again: PreStartContainer, then the recorded answers."""
        process = self._get_process()
        pod_state = self.pods[pod]
        await self.pre_start(pod, container)
        if process.admission.has_missing_devices(pod, pod_state.containers[container]):
            return await self._admit(pod_state, pod_state.containers[container])
        self.events.add("container_started", pod=pod, container=container)
        return process.admission.build_options(pod, container)

    def device_health(self, pod: str) -> dict[str, str]:
        """Return the health of a pod's devices in allocatedResourcesStatus, by ID. Before 1.36 it is empty.

        An ID that is no longer listed is Healthy there. So is a device whose plugin ended while it was Healthy.
        """
        process = self._get_process()
        if not self.release.tells_device_health:
            return {}
        return {
            device_id: process.table.get_health(entry.resource, device_id)
            for container in self.pods[pod].containers.values()
            if container.kind != "init"
            for entry in process.admission.pod_devices.find_entries(pod, container.name)
            for device_id in entry.ids
        }

    def remove_pod(self, pod: str) -> None:
        """Remove a pod. The plugin gets no call. The devices are free at the next admission or PodResources List."""
        if self.pods.pop(pod, None) is not None:
            self.events.add("pod_removed", pod=pod)
