"""The node without its kubelet: directories, pods, received lists, events and faults."""

import asyncio
import os
import random
import time
from collections.abc import Callable, Iterable

from agent.core.struct import Struct
from device_agent_lab.simulated import hints as numa
from device_agent_lab.simulated.device_table import ReceivedLists
from device_agent_lab.simulated.events import KubeletEvent, KubeletEvents
from device_agent_lab.simulated.fault_injection import InjectedFaults
from device_agent_lab.simulated.pod import Pod
from device_agent_lab.simulated.release import Release

SOCKET = "kubelet.sock"


class Limits(Struct, kw_only=True):
    """The time limits of the kubelet in seconds (dm/plugin/v1beta1, pm/). Tests can shorten them."""

    dial: float = 10.0
    dial_backoff: float = 1.0  # grpc-go's first pause, then times 1.6
    pre_start: float = 30.0
    grace: float = 300.0  # from the end of a stream until the resource is forgotten
    get_info: float = 1.0
    notify: float = 5.0
    watcher_poll: float = 0.1  # not of the kubelet, which has inotify and a pass each second
    watcher_backoff: float = 0.5
    watcher_backoff_most: float = 122.0
    pod_resources_rate: float = 100.0
    pod_resources_burst: int = 10


class SimulatedNode:
    """A node. `events`, `lists`, `faults` and `pods` keep their content over restarts of the kubelet."""

    def __init__(
        self,
        directory: str | os.PathLike[str],
        *,
        release: str = "1.36",
        watcher_directory: str | os.PathLike[str] | None = None,
        pod_resources_directory: str | os.PathLike[str] | None = None,
        topology_policy: str = "none",
        numa_nodes: Iterable[int] = (0,),
        limits: Limits = Limits(),  # noqa: B008  frozen
        seed: int = 0,
        clock: Callable[[], float] = time.monotonic,
        listener: Callable[[KubeletEvent], None] | None = None,
    ) -> None:
        """Create it. `clock` is only that of the grace period after the end of a stream. `seed` replaces the chance of
        Go.
        """
        if topology_policy not in numa.POLICIES:
            raise ValueError(f"topology policy {topology_policy!r}: one of {', '.join(numa.POLICIES)}")
        self.directory = os.fspath(directory)
        self.socket = os.path.join(self.directory, SOCKET)
        self.release = Release.parse(release)
        self.watcher_directory = watcher_directory
        self.pod_resources_directory = pod_resources_directory
        self.topology_policy = topology_policy
        self.numa_nodes = tuple(numa_nodes)
        self.limits = limits
        self.chance = random.Random(seed)  # noqa: S311
        self.clock = clock
        self.events = KubeletEvents(listener)
        self.lists = ReceivedLists()
        self.faults = InjectedFaults()
        self.pods: dict[str, Pod] = {}
        # Pods are admitted one at a time. During a call to a plugin all others wait.
        self.sync_loop = asyncio.Lock()
