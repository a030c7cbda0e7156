"""Start, stop and restart of a kubelet in one directory, with reads of its state and waits."""

import asyncio
import os
import random
import time
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Literal, Self, TypeVar

from device_agent_lab.simulated import hints as numa
from device_agent_lab.simulated.clients import Client, Clients, ReceivedLists
from device_agent_lab.simulated.device_table import NodeStatus
from device_agent_lab.simulated.errors import KubeletCrashed, KubeletStopped
from device_agent_lab.simulated.events import KubeletEvent, KubeletEvents
from device_agent_lab.simulated.fault_injection import InjectedFaults
from device_agent_lab.simulated.kubelet_process import SOCKET, KubeletProcess
from device_agent_lab.simulated.limits import Limits
from device_agent_lab.simulated.pod import Pod
from device_agent_lab.simulated.release import Release
from device_agent_lab.simulated.simulated_node import SimulatedNode

T = TypeVar("T")


class KubeletRestarts:
    """A kubelet that can restart. `events`, `lists`, `faults` and `pods` keep their content."""

    def __init__(
        self,
        directory: str | os.PathLike[str],
        *,
        release: str = "1.36",
        watcher_directory: str | os.PathLike[str] | None = None,
        pod_resources_directory: str | os.PathLike[str] | None = None,
        topology_policy: str = "none",
        numa_nodes: Iterable[int] = (0,),
        limits: Limits | None = None,
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
        self.events = KubeletEvents(listener)
        self.lists = ReceivedLists()
        self.faults = InjectedFaults()
        self.pods: dict[str, Pod] = {}
        self.crashed: str | None = None
        self._node = SimulatedNode(
            directory=self.directory,
            watcher_directory=None if watcher_directory is None else os.fspath(watcher_directory),
            pod_resources_directory=None if pod_resources_directory is None else os.fspath(pod_resources_directory),
            release=Release.parse(release),
            limits=limits or Limits(),
            topology_policy=topology_policy,
            numa_nodes=tuple(numa_nodes),
            chance=random.Random(seed),  # noqa: S311
            clock=clock,
            events=self.events,
            lists=self.lists,
            faults=self.faults,
            pods=self.pods,
        )
        self._process: KubeletProcess | None = None
        self._task: asyncio.Task[None] | None = None
        # Pods are admitted one at a time. During a call to a plugin all others wait.
        self._sync_loop = asyncio.Lock()

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
        process = KubeletProcess(self._node, wipe=wipe)
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

    def _get_process(self) -> tuple[KubeletProcess, Clients]:
        if self.crashed is not None:
            raise KubeletCrashed(self.crashed)
        if self._process is None or self._process.clients is None:
            raise KubeletStopped("no kubelet is running")
        return self._process, self._process.clients

    async def _crash(self, crash: KubeletCrashed) -> None:
        self.crashed = str(crash)
        self.events.add("crashed", reason=self.crashed)
        await self.stop("kill")

    # ------------------------------------------------------------ waiting

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

    def status(self) -> NodeStatus:
        """Return the report of the node. Each call forgets resources after their grace period, as the real one does."""
        return NodeStatus() if self._process is None else self._process.table.compute_status()

    def capacity(self, resource: str) -> int:
        return self.status().capacity.get(resource, 0)

    def allocatable(self, resource: str) -> int:
        return self.status().allocatable.get(resource, 0)

    def healthy(self, resource: str) -> frozenset[str]:
        return frozenset(() if self._process is None else self._process.table.healthy.get(resource, ()))

    def unhealthy(self, resource: str) -> frozenset[str]:
        return frozenset(() if self._process is None else self._process.table.unhealthy.get(resource, ()))

    def is_known(self, resource: str) -> bool:
        """Return whether the kubelet knows the resource. If not, a pod with this resource runs without a device."""
        return self._process is not None and self._process.admission.is_known(resource)

    def get_held_ids(self, resource: str) -> dict[str, tuple[str, str]]:
        """Return the held IDs as ID: (pod, container)."""
        holdings = [] if self._process is None else self._process.admission.pod_devices.list_entries()
        return {i: (h.pod, h.container) for h in holdings if h.resource == resource for i in h.ids}

    def get_allocated_ids(self, resource: str) -> frozenset[str]:
        """Return the IDs that the kubelet counts as allocated. More than the held IDs: devices leaked."""
        return frozenset(
            () if self._process is None else self._process.admission.pod_devices.allocated.get(resource, ())
        )

    def streams(self, resource: str) -> int:
        """Return the number of open ListAndWatch streams of the resource."""
        return len(self._find_clients(resource))

    def connections(self) -> int:
        """Return the number of connections to plugins, including those that the real kubelet would leak."""
        return 0 if self._process is None or self._process.clients is None else len(self._process.clients.open)

    def hints(self, resource: str, count: int, *, pod: str = "", container: str = "") -> list[numa.Hint] | None:
        """Return the hints for a new container, or for one with devices. None is any node, an empty list no node."""
        process, _ = self._get_process()
        return process.admission.compute_hints(pod, container, resource, count)

    # ------------------------------------------------------------ streams

    def _find_clients(self, resource: str) -> list[Client]:
        return (
            []
            if self._process is None or self._process.clients is None
            else self._process.clients.find_streaming(resource)
        )

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
        _, clients = self._get_process()
        await clients.connect(resource, self._find_clients(resource)[-1].socket, allow_duplicate=True)
