"""The plugin watcher: sockets in plugins_registry are registrations (pm/pluginwatcher, pm/operationexecutor)."""

import asyncio
import os
import stat
from collections.abc import Iterator
from urllib.parse import quote

from agent.kubelet.messages import pluginregistration
from device_agent_lab.simulated.clients import Clients, RegistrationError
from device_agent_lab.simulated.errors import RpcError
from device_agent_lab.simulated.plugin_client import Peer, call_plugin
from device_agent_lab.simulated.registration import VERSION, is_accepted
from device_agent_lab.simulated.simulated_node import SimulatedNode

Identity = tuple[int, int, int]  # device, inode, time of change: a recreated socket has another identity


class _TryError(Exception):
    """The end of one attempt. `is_recorded`: the actual state of the kubelet contains the plugin anyway."""

    def __init__(self, text: str, *, is_recorded: bool = False) -> None:
        super().__init__(text)
        self.is_recorded = is_recorded


class Watcher:
    """Reads the directory every 100 ms. The real kubelet has inotify and a pass each second."""

    def __init__(self, node: SimulatedNode, clients: Clients) -> None:
        self._node = node
        self._clients = clients
        self._registered: dict[str, tuple[Identity, str, str]] = {}  # path: identity, resource, service socket
        self._pending: set[str] = set()
        self._not_before: dict[str, tuple[float, float]] = {}  # path: time, next pause

    async def run(self, directory: str | os.PathLike[str]) -> None:
        os.makedirs(directory, mode=0o750, exist_ok=True)
        async with asyncio.TaskGroup() as tries:
            while True:
                await self._update(directory, tries)
                await asyncio.sleep(self._node.limits.watcher_poll)

    async def _update(self, directory: str | os.PathLike[str], tries: asyncio.TaskGroup) -> None:
        """Run one pass, unregistrations first."""
        present = dict(self._find_sockets(directory))
        for path, (identity, resource, socket) in list(self._registered.items()):
            if present.get(path) != identity:
                del self._registered[path]
                self._not_before.pop(path, None)
                self._node.events.add("plugin_gone", resource, path=path)
                await self._clients.deregister(resource, socket)
        current_time = asyncio.get_running_loop().time()
        for path, identity in present.items():
            due, _ = self._not_before.get(path, (0.0, 0.0))
            if path not in self._registered and path not in self._pending and due <= current_time:
                self._pending.add(path)
                tries.create_task(self._try(path, identity))

    def _find_sockets(self, directory: str | os.PathLike[str]) -> Iterator[tuple[str, Identity]]:
        try:
            entries = list(os.scandir(directory))
        except OSError:
            return
        for entry in entries:
            try:
                status = entry.stat()
            except OSError:
                continue
            if entry.name.startswith("."):
                continue
            if stat.S_ISDIR(status.st_mode):
                yield from self._find_sockets(entry.path)
            elif stat.S_ISSOCK(status.st_mode):
                yield entry.path, (status.st_dev, status.st_ino, status.st_ctime_ns)

    async def _try(self, path: str, identity: Identity) -> None:
        try:
            await self._register(path, identity)
        except _TryError as failed:
            self._node.events.add("plugin_refused", path=path, text=str(failed))
            if not failed.is_recorded:
                self._registered.pop(path, None)
            _, pause = self._not_before.get(path, (0.0, self._node.limits.watcher_backoff))
            later = asyncio.get_running_loop().time() + pause
            self._not_before[path] = (later, min(pause * 2, self._node.limits.watcher_backoff_most))
        else:
            self._not_before.pop(path, None)
        finally:
            self._pending.discard(path)

    async def _register(self, path: str, identity: Identity) -> None:
        try:
            peer = await Peer.dial(
                path,
                authority=quote(path, safe=""),
                user_agent=self._node.release.user_agent,
                limit=self._node.limits.dial,
                backoff=self._node.limits.dial_backoff,
            )
        except RpcError as error:
            raise _TryError(f"RegisterPlugin error -- dial failed at socket {path}, err: {error.text}") from None
        try:
            await self._register_plugin(path, identity, pluginregistration.RegistrationStub(peer.channel))
        finally:
            await peer.close()

    async def _register_plugin(
        self, path: str, identity: Identity, plugin: pluginregistration.RegistrationStub
    ) -> None:
        try:
            call = plugin.get_info(pluginregistration.InfoRequest(), timeout=self._node.limits.get_info)
            info = await call_plugin(call)
        except RpcError as error:
            text = f"RegisterPlugin error -- failed to get plugin info using RPC GetInfo at socket {path}, err: {error}"
            raise _TryError(text) from None
        self._node.events.add(
            "plugin_info", info.name, path=path, type=info.type, versions=list(info.supported_versions)
        )
        if (refusal := self._find_refusal(info, path)) is not None:
            await self._notify(plugin, info.name, refusal)
            raise _TryError(refusal)
        # The endpoint is used unchanged: a relative path is relative to the working directory of the kubelet.
        socket = info.endpoint or path
        self._registered[path] = (identity, info.name, socket)
        try:
            await self._clients.connect(info.name, socket)
        except RegistrationError as error:
            text = f"RegisterPlugin error -- plugin registration failed with err: {error}"
            await self._notify(plugin, info.name, text)
            # Until 1.35 the plugin counts as registered, and there is no retry (#133725).
            raise _TryError(text, is_recorded=not self._node.release.retries_watched_registration) from None
        try:
            await self._notify(plugin, info.name, "")
        except _TryError:
            if self._node.release.retries_watched_registration:
                await self._clients.deregister(info.name, socket)
                raise

    def _find_refusal(self, info: pluginregistration.PluginInfo, path: str) -> str | None:
        if (fault := self._node.faults.take_fault(info.name, watched=True)) is not None:
            return fault.text
        if info.type != "DevicePlugin":
            return f"RegisterPlugin error -- no handler registered for plugin type: {info.type} at socket {path}"
        text: str | None = None
        if VERSION not in info.supported_versions:
            versions = " ".join(info.supported_versions)
            text = f"manager version, {VERSION}, is not among plugin supported versions [{versions}]"
        elif not is_accepted(info.name):
            text = f'invalid name of device plugin socket: the ResourceName "{info.name}" is invalid'
        return None if text is None else f"RegisterPlugin error -- plugin validation failed with err: {text}"

    async def _notify(self, plugin: pluginregistration.RegistrationStub, resource: str, error: str) -> None:
        status = pluginregistration.RegistrationStatus(plugin_registered=not error, error=error)
        self._node.events.add("plugin_notified", resource, registered=not error, text=error)
        try:
            await call_plugin(plugin.notify_registration_status(status, timeout=self._node.limits.notify))
        except RpcError as failed:
            text = f"RegisterPlugin error -- failed to send registration status, err: {failed}"
            raise _TryError(text, is_recorded=not self._node.release.retries_watched_registration) from None
