"""One kubelet process, from its start to its end."""

import asyncio
import contextlib
import os
import stat

from device_agent_lab.simulated.admission import Admission
from device_agent_lab.simulated.checkpoint import NAME as CHECKPOINT
from device_agent_lab.simulated.checkpoint import Checkpoint
from device_agent_lab.simulated.clients import Clients
from device_agent_lab.simulated.device_table import DeviceTable
from device_agent_lab.simulated.listener import GrpcListener
from device_agent_lab.simulated.pod_resources import PodResources
from device_agent_lab.simulated.registration import Registration
from device_agent_lab.simulated.simulated_node import SOCKET, SimulatedNode
from device_agent_lab.simulated.watcher import Watcher


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
        self._is_over = False
        self._tasks = asyncio.TaskGroup()
        os.makedirs(node.directory, mode=0o755, exist_ok=True)
        checkpoint = Checkpoint.read(node.directory)
        self.table = DeviceTable(node.clock, node.limits.grace)
        self.table.remember(checkpoint.healthy_ids)
        self.admission = Admission(node, self.table, checkpoint.entries, self._save)
        self.clients = Clients(node, self.table, self._save, self._tasks)
        removed = remove_files(node.directory, all_files=node.release.wipes_all_files) if wipe else []
        with contextlib.suppress(FileNotFoundError):
            os.unlink(node.socket)
        self._registry = GrpcListener(node.socket)
        self._listeners = [self._registry]
        self.ready = asyncio.Event()
        node.events.add("bound", removed=removed)

    def listen(self) -> None:
        self._registry.listen()
        self._node.events.add("listening")

    def _listen_pod_resources(self, directory: str | os.PathLike[str]) -> GrpcListener:
        """Create the socket. It appears by rename, already listening."""
        os.makedirs(directory, mode=0o750, exist_ok=True)
        listener = GrpcListener(os.path.join(directory, f".{os.getpid()}.sock"))
        self._listeners.append(listener)
        listener.listen()
        listener.rename(os.path.join(directory, SOCKET))
        self._node.events.add("pod_resources", socket=listener.path)
        return listener

    async def run(self) -> None:
        """Serve until cancelled."""
        node = self._node
        try:
            async with self._tasks as tasks:
                tasks.create_task(self._registry.serve(Registration(node, self.clients, tasks)))
                if node.pod_resources_directory is not None:
                    service = PodResources(node, self.admission, self.table)
                    tasks.create_task(self._listen_pod_resources(node.pod_resources_directory).serve(service))
                if node.watcher_directory is not None:
                    tasks.create_task(Watcher(node, self.clients).run(node.watcher_directory))
                self.ready.set()
        finally:
            await self.close()

    def _save(self) -> None:
        # Without its directory the real kubelet logs an error and continues.
        with contextlib.suppress(FileNotFoundError):
            if not self._is_over:
                Checkpoint.write(self._node.directory, self.admission.pod_devices.list_entries(), self.table.healthy)

    def drop(self) -> None:
        """End every connection at once, as SIGKILL does."""
        self._is_over = True
        for listener in self._listeners:
            listener.drop()
        self.clients.drop()

    async def close(self) -> None:
        self._is_over = True
        for listener in self._listeners:
            await listener.close()
        await self.clients.close()
