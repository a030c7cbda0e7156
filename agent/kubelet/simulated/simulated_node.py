"""The node without its kubelet: directories, pods, received lists and events."""

import random
from collections.abc import Callable

from agent.core.struct import Struct
from agent.kubelet.simulated.clients import ReceivedLists
from agent.kubelet.simulated.events import KubeletEvents
from agent.kubelet.simulated.fault_injection import InjectedFaults
from agent.kubelet.simulated.limits import Limits
from agent.kubelet.simulated.pod import Pod
from agent.kubelet.simulated.release import Release


class SimulatedNode(Struct, kw_only=True):
    directory: str
    watcher_directory: str | None
    pod_resources_directory: str | None
    release: Release
    limits: Limits
    topology_policy: str
    numa_nodes: tuple[int, ...]
    chance: random.Random
    clock: Callable[[], float]
    events: KubeletEvents
    lists: ReceivedLists
    faults: InjectedFaults
    pods: dict[str, Pod]
