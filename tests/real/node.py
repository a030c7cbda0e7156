"""A node with a machine on disk, the agent, and a real or simulated kubelet."""

from typing import Any

from agent.app import Agent
from agent.core.inventory.dirty_set import DirtySet
from device_agent_lab.simulated.simulated_node import Limits
from tests.agent.rig import FOO, SHORT, Rig
from tests.real.kubelets import SECONDS, Real, Simulated, minor
from tests.tree import Tree

CARD, OTHER = "example.com/card", "example.com/other"
TREE = "/sys/devices/pci0000:00"


def cards(name: str = CARD, vendor: str = "0x15b3", more: str = "") -> str:
    """An entry for PCI devices of a vendor."""
    return (
        f'[[resource]]\nname = "{name}"\nsource = "pci"\nmatch = {{ vendor = "{vendor}" }}\n{more}\n'
        f'[resource.give.env]\n{name.rpartition("/")[2].upper()} = {{ value = "{{address}}", join = "," }}\n'
    )


class Node(Rig):
    def __init__(self, top: str, kind: str, programs: dict[str, str]) -> None:
        self.kind = kind
        self.minor = minor(kind)
        self._programs = programs
        self._made: list[Real | Simulated] = []
        super().__init__(top)

    @property
    def real(self) -> bool:
        return self.kind.startswith("real")

    def new_kubelet(self, *, policy: str = "none", limits: Limits = SHORT) -> Real | Simulated:
        if self.real:
            self.kubelet = Real(
                self._programs[f"manager-{self.minor}"],
                self.dp,
                "-plugins", str(self.watched),
                "-pod-resources", f"{self.pods}/kubelet.sock",
                "-policy", policy,
            )  # fmt: skip
        else:
            self.kubelet = Simulated(
                self.dp,
                release=self.minor,
                watcher_directory=self.watched,
                pod_resources_directory=self.pods,
                topology_policy=policy,
                numa_nodes=(0, 1),
                limits=limits,
            )
        self._made.append(self.kubelet)
        return self.kubelet

    async def until(self, condition: Any, seconds: float = SECONDS) -> Any:
        return await self.kubelet.until(condition, seconds)

    async def close(self) -> None:
        for client in self._clients:
            await client.close()
        for kubelet in self._made:
            await kubelet.close()

    # ------------------------------------------------------------ cards, which have NUMA nodes

    def card(self, number: int, node: int, **files: str) -> str:
        """A card; its id is its address."""
        address = f"0000:3b:{number:02x}.0"
        self.tree.pci(address, numa_node=f"{node}\n", **files)
        return address

    def uncard(self, agent: Agent | None, *addresses: str) -> None:
        """Remove the node and send its kernel event, because a tree on disk sends none."""
        for address in addresses:
            self.tree.at(f"/sys/bus/pci/devices/{address}").unlink()
            self.tree.at(f"{TREE}/{address}").rename(self.top / f"trash{len(list(self.top.iterdir()))}")
            self.say(agent, address)

    @staticmethod
    def say(agent: Agent | None, address: str) -> None:
        if agent is not None:
            agent.tracker.request_look(DirtySet(frozenset({f"{TREE}/{address}"}), frozenset({"pci"})))


def split_nodes(tree: Tree, names: list[str]) -> tuple[set[str], set[str]]:
    """Return the existing nodes of these, and the others."""
    there = {name for name in names if tree.at(f"/dev/{name}").exists()}
    return there, set(names) - there


def split_ids(agent: Agent, resource: str = FOO) -> tuple[set[str], set[str]]:
    """Return the Healthy IDs of the agent's list, and the others."""
    devices = agent.registry.get_list(resource).devices
    healthy = {device.id for device in devices if device.health.value == "Healthy"}
    return healthy, {device.id for device in devices} - healthy
