"""A node that is registered with an API server: a scheduler places its pods, and the API has their status."""

import json
from pathlib import Path

from tests.node.control import KUBECONFIG, NODE_ADDRESS, Control
from tests.node.machine import Machine, until
from tests.node.node import NAME, Node, manifest

PODS = "/api/v1/namespaces/default/pods"
NODES = "/api/v1/nodes"
CNI = "/var/lib/cni/conf"
NETWORK = {"cniVersion": "1.0.0", "name": "it", "plugins": [{"type": "loopback"}]}


class RegisteredNode(Node):
    hands_over = True
    kubelet_flags = (f"--kubeconfig={KUBECONFIG}", f"--node-ip={NODE_ADDRESS}")

    def __init__(self, machine: Machine, kubelet: Path, control: Control) -> None:
        super().__init__(machine, kubelet)
        self.control = control

    def start_containerd(self) -> None:
        """With a network that no pod asks for: without any the node is never ready."""
        self.machine.path(CNI).mkdir(parents=True, exist_ok=True)
        self.machine.path(f"{CNI}/it.conflist").write_text(json.dumps(NETWORK))
        super().start_containerd()

    def _kubelet_serves(self) -> bool:
        return super()._kubelet_serves() and any(
            condition["type"] == "Ready" and condition["status"] == "True"
            for node in self.control.get(NODES)["items"]
            for condition in node["status"]["conditions"]
        )

    def logs(self) -> list[Path]:
        return [*super().logs(), *(process.log for process in self.control.processes)]

    def counts(self, name: str) -> tuple[int, int]:
        """Capacity and allocatable of a resource, as the node's status says; 0 if it is not named."""
        status = self.control.get(f"{NODES}/{NAME}")["status"]
        capacity, allocatable = (int(status[word].get(f"node.test/{name}", 0)) for word in ("capacity", "allocatable"))
        return capacity, allocatable

    def says(self, name: str, capacity: int, allocatable: int, seconds: float = 60) -> None:
        """Wait for the node's status, which the kubelet brings up to date every ten seconds."""
        what = f"the node's status has {capacity} of {name}, {allocatable} allocatable"
        until(lambda: self.counts(name) == (capacity, allocatable), seconds, what)

    # ------------------------------------------------------------ pods

    def deploy(self, pod: str, limits: dict[str, str], security: dict[str, int] | None = None) -> None:
        self.control.create(PODS, manifest(pod, limits, security))
        self._pods.add(pod)

    def pods(self) -> dict[str, dict]:
        return {item["metadata"]["name"]: item for item in self.control.get(PODS)["items"]}

    def pending(self, pod: str, name: str, seconds: float = 60) -> None:
        """The scheduler has looked at it, and no node has enough of a resource."""

        def unschedulable() -> bool:
            assert self.status(pod)["phase"] == "Pending", self.status(pod)
            return any(
                condition["type"] == "PodScheduled"
                and condition["reason"] == "Unschedulable"
                and f"Insufficient node.test/{name}" in condition["message"]
                for condition in self.status(pod).get("conditions", [])
            )

        until(unschedulable, seconds, f"{pod} is unschedulable")

    def remove(self, *pods: str) -> None:
        for pod in pods:
            if pod in self.pods():
                self.control.delete(f"{PODS}/{pod}")
        super().remove(*pods)
