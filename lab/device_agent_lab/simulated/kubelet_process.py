"""One kubelet process, from its start to its end."""

import asyncio
import contextlib
import os
import stat

from device_agent_lab.simulated.admission import Admission
from device_agent_lab.simulated.checkpoint import NAME as CHECKPOINT
from device_agent_lab.simulated.checkpoint import Checkpoint
from device_agent_lab.simulated.clients import Clients
from device_agent_lab.simulated.device_table import DeviceTable, ReceivedList
from device_agent_lab.simulated.devices_of_pods import PodDevices
from device_agent_lab.simulated.listener import GrpcListener
from device_agent_lab.simulated.pod_resources import PodResources
from device_agent_lab.simulated.registration import Registration
from device_agent_lab.simulated.simulated_node import SimulatedNode
from device_agent_lab.simulated.watcher import Watcher

SOCKET = "kubelet.sock"


def remove_files(directory: str, *, all_files: bool) -> list[str]:
    """Remove the files that a kubelet removes at its start, only at the top level. Return their names."""
    removed = []
    for entry in sorted(os.scandir(directory), key=lambda entry: entry.name):
        if entry.name == CHECKPOINT:
            continue
        with contextlib.suppress(OSError):
            # If a link leads to a socket, the link is removed.
            if not entry.is_dir(follow_symlinks=False) if all_files else stat.S_ISSOCK(entry.stat().st_mode):
                os.unlink(entry.path)
                removed.append(entry.name)
    return removed


class KubeletProcess:
    """One process. Created: the directory is cleaned and kubelet.sock is bound. Then it listens, and then it serves."""

    def __init__(self, node: SimulatedNode, *, wipe: bool) -> None:
        self._node = node
        self.is_over = False
        os.makedirs(node.directory, mode=0o755, exist_ok=True)
        checkpoint = Checkpoint.read(node.directory)
        self.table = DeviceTable(node.clock, node.limits.grace)
        self.table.remember(checkpoint.healthy_ids)
        self.admission = Admission(
            self.table,
            PodDevices(checkpoint.entries),
            events=node.events,
            release=node.release,
            limits=node.limits,
            chance=node.chance,
            numa_nodes=node.numa_nodes,
            save=self._save,
            is_active=lambda key: key in node.pods and node.pods[key].is_active,
        )
        path = os.path.join(node.directory, SOCKET)
        removed = remove_files(node.directory, all_files=node.release.wipes_all_files) if wipe else []
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        self._registry = GrpcListener(path)
        self._listeners = [self._registry]
        self.clients: Clients | None = None
        self.ready = asyncio.Event()
        node.events.add("bound", removed=removed)

    def listen(self) -> None:
        self._registry.listen()
        self._node.events.add("listening")

    def _listen_pod_resources(self, directory: str) -> GrpcListener:
        """Create the socket. It appears by rename, already listening."""
        os.makedirs(directory, mode=0o750, exist_ok=True)
        temporary = os.path.join(directory, f".{os.getpid()}.sock")
        listener = GrpcListener(temporary)
        self._listeners.append(listener)
        listener.listen()
        listener.rename(os.path.join(directory, SOCKET))
        self._node.events.add("pod_resources", socket=listener.path)
        return listener

    async def run(self) -> None:
        """Serve until cancelled."""
        node = self._node
        try:
            async with asyncio.TaskGroup() as tasks:
                self.clients = Clients(
                    self.table,
                    lists=node.lists,
                    receive=self._receive,
                    events=node.events,
                    release=node.release,
                    limits=node.limits,
                    tasks=tasks,
                )
                registration = Registration(
                    node.directory, self.clients, node.faults, events=node.events, release=node.release, tasks=tasks
                )
                tasks.create_task(self._registry.serve(registration))
                if node.pod_resources_directory is not None:
                    active_only = node.release.lists_active_pods_only
                    service = PodResources(node.pods, self.admission, self.table, node.limits, active_only=active_only)
                    tasks.create_task(self._listen_pod_resources(node.pod_resources_directory).serve(service))
                if node.watcher_directory is not None:
                    watcher = Watcher(
                        node.watcher_directory,
                        self.clients,
                        node.faults,
                        events=node.events,
                        release=node.release,
                        limits=node.limits,
                    )
                    tasks.create_task(watcher.run())
                self.ready.set()
        finally:
            await self.close()

    def _receive(self, received: ReceivedList) -> None:
        self.table.replace_devices(received.resource, received.devices)
        self._save()
        self._node.events.add(
            "list",
            received.resource,
            list=received.number,
            healthy=len(received.healthy),
            unhealthy=len(received.ids - received.healthy),
            size=received.size,
            repeated=received.repeated,
            duplicates=sorted(received.duplicates),
        )

    def _save(self) -> None:
        # Without its directory the real kubelet logs an error and continues.
        with contextlib.suppress(FileNotFoundError):
            if not self.is_over:
                Checkpoint.write(self._node.directory, self.admission.pod_devices.list_entries(), self.table.healthy)

    def drop(self) -> None:
        """End every connection at once, as SIGKILL does."""
        self.is_over = True
        for listener in self._listeners:
            listener.drop()
        if self.clients is not None:
            self.clients.drop()

    async def close(self) -> None:
        self.is_over = True
        for listener in self._listeners:
            await listener.close()
        if self.clients is not None:
            await self.clients.close()
