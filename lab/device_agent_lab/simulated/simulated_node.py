"""The node without its kubelet: directories, pods, received lists and events."""

import random
from collections.abc import Callable

from agent.core.struct import Struct
from device_agent_lab.simulated.clients import ReceivedLists
from device_agent_lab.simulated.events import KubeletEvents
from device_agent_lab.simulated.fault_injection import InjectedFaults
from device_agent_lab.simulated.limits import Limits
from device_agent_lab.simulated.pod import Pod
from device_agent_lab.simulated.release import Release


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
