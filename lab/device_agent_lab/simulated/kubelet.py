"""A kubelet for tests of device plugins. Models the device manager of 1.30 to 1.37.

    async with Kubelet(tmp_path) as kubelet:
        ...                                   # the plugin registers at kubelet.socket
        await kubelet.until(lambda: kubelet.allocatable("example.com/foo") == 2)
        options = await kubelet.allocate("pod", "container", {"example.com/foo": 1})
        await kubelet.restart()

docs/fake-kubelet.md documents the behaviour and the limits.
"""

from collections.abc import Mapping

from device_agent_lab.simulated import hints as numa
from device_agent_lab.simulated.container_options import ContainerOptions
from device_agent_lab.simulated.errors import AllocationError, KubeletCrashed, KubeletStopped, PodRefused, RpcError
from device_agent_lab.simulated.kubelet_process import KubeletProcess
from device_agent_lab.simulated.kubelet_restarts import KubeletRestarts
from device_agent_lab.simulated.pod import Container, Kind, Pod


class Kubelet(KubeletRestarts):
    """A kubelet with restarts, and pods that outlive them: the device part of the real sync loop."""

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
        async with self._sync_loop:
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
        process, _ = self._get_process()
        try:
            nodes = self._choose_nodes(process, pod, container)
            return await process.admission.allocate(pod, container, nodes)
        except KubeletCrashed as crash:
            await self._crash(crash)
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
        policy, nodes = self._node.topology_policy, self._node.numa_nodes
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
        process, _ = self._get_process()
        process.admission.sources_ready = False
        refused = {}
        async with self._sync_loop:
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
        process, _ = self._get_process()
        await process.admission.pre_start(pod, self.pods[pod].containers[container])

    async def start_container(self, pod: str, container: str) -> ContainerOptions:
        """Start a container of an admitted pod, or start it again: PreStartContainer, then the recorded answers."""
        process, _ = self._get_process()
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
        process, _ = self._get_process()
        if not self._node.release.tells_device_health:
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
        pod_state = self.pods.pop(pod, None)
        if pod_state is not None:
            self.events.add("pod_removed", pod=pod)
