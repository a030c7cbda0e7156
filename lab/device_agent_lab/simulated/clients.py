"""The registered plugins: the table of clients and their streams (dp/server.go, handler.go, client.go)."""

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from agent.kubelet.messages import v1beta1
from device_agent_lab.simulated.device_table import DeviceTable, ListedDevice, ReceivedList
from device_agent_lab.simulated.errors import RpcError
from device_agent_lab.simulated.plugin_client import Peer, call_plugin
from device_agent_lab.simulated.simulated_node import SimulatedNode

T = TypeVar("T")


class RegistrationError(Exception):
    """Register failed. The plugin gets this text."""


def start_task(tasks: asyncio.TaskGroup, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    """Start a task of the kubelet.

    Raises:
        RegistrationError: the kubelet is stopping.
    """
    try:
        return tasks.create_task(work)
    except RuntimeError:
        work.close()
        raise RegistrationError("the kubelet is stopping") from None


class Client:
    """One registration: a connection and its stream."""

    def __init__(self, resource: str, socket: str) -> None:
        self.resource = resource
        self.socket = socket
        self.peer: Peer | None = None
        self.reading = asyncio.Event()
        self.reading.set()
        self.last: ReceivedList | None = None
        self.is_streaming = False
        self._reader: asyncio.Task[None] | None = None

    @property
    def connected_peer(self) -> Peer:
        if self.peer is None:
            raise RpcError("Unavailable", "no connection")
        return self.peer

    async def run(self, receive: Callable[[v1beta1.ListAndWatchResponse, int], None]) -> None:
        """Call ListAndWatch once.

        Raises:
            RpcError: the plugin did not end the stream with OK.
        """
        ended: list[RpcError] = []

        async def read() -> None:
            try:
                await self.connected_peer.receive_lists(receive, self.reading)
            except RpcError as error:
                ended.append(error)

        self.is_streaming = True
        try:
            async with asyncio.TaskGroup() as group:
                self._reader = group.create_task(read())
        finally:
            self.is_streaming = False
        if ended:
            raise ended[0]

    def cancel_stream(self) -> None:
        if self._reader is not None:
            self._reader.cancel()

    async def close(self) -> None:
        if self.peer is not None:
            await self.peer.close()

    def drop(self) -> None:
        if self.peer is not None:
            self.peer.drop()


class Clients:
    """The table of the handlers and the streams of one kubelet process. Connections live as long as in the real
    kubelet.
    """

    def __init__(
        self, node: SimulatedNode, table: DeviceTable, save: Callable[[], None], tasks: asyncio.TaskGroup
    ) -> None:
        self._node = node
        self._table = table
        self._save = save
        self._tasks = tasks
        self._clients_by_key: dict[tuple[str, str], Client] = {}
        # Including clients that are in no table: the real kubelet leaks these (#124716).
        self.open: list[Client] = []

    def _make_key(self, resource: str, socket: str) -> tuple[str, str]:
        return (resource, socket if self._node.release.keyed_by_path else "")

    def find_streaming(self, resource: str) -> list[Client]:
        """Return the clients of a resource with an open stream, the oldest first."""
        return [client for client in self.open if client.resource == resource and client.is_streaming]

    async def connect(
        self, resource: str, socket: str, *, deadline: float | None = None, allow_duplicate: bool = False
    ) -> Client:
        """Run steps 5 to 9 of a registration.

        `deadline` (loop time) is that of Register, for releases that pass it on. `allow_duplicate` allows a socket that
        is already connected.

        Raises:
            RegistrationError: with the texts of the device manager.
        """
        key = self._make_key(resource, socket)
        client = Client(resource, socket)
        self._clients_by_key[key] = client
        try:
            client.peer = await self._dial(socket)
            self.open.append(client)
            if (
                self._node.release.keyed_by_path
                and not allow_duplicate
                and socket in self._table.find_live_sockets(resource)
            ):
                self.open.remove(client)
                await client.close()
                raise RegistrationError(f"device plugin already connected: {socket}")
            await self._ask_options(client, deadline)
        except BaseException:
            # By name: a live client with the same name is also removed from the table.
            self._clients_by_key.pop(key, None)
            raise
        start_task(self._tasks, self._run(key, client))
        return client

    async def _dial(self, socket: str) -> Peer:
        try:
            return await Peer.dial(
                socket,
                authority="localhost",
                user_agent=self._node.release.user_agent,
                limit=self._node.limits.dial,
                backoff=self._node.limits.dial_backoff,
            )
        except RpcError as error:
            raise RegistrationError(f"failed to dial device plugin: {error.text}") from None

    async def _ask_options(self, client: Client, deadline: float | None) -> None:
        timeout = None if deadline is None else max(deadline - asyncio.get_running_loop().time(), 0.001)
        try:
            options = await call_plugin(
                client.connected_peer.plugin.get_device_plugin_options(v1beta1.Empty(), timeout=timeout)
            )
        except RpcError as error:
            raise RegistrationError(f"failed to get device plugin options: {error}") from None
        join = self._table.add_endpoint if self._node.release.keyed_by_path else self._table.set_endpoint
        join(client.resource, client, options)
        self._node.events.add(
            "registered",
            client.resource,
            socket=client.socket,
            pre_start=options.pre_start_required,
            preferred=options.get_preferred_allocation_available,
        )

    async def _run(self, key: tuple[str, str], client: Client) -> None:
        code, text = "OK", ""
        try:
            await client.run(lambda message, size: self._receive_list(client, message, size))
        except RpcError as error:
            code, text = error.code, error.text
        # By name again: until 1.36 the end of an older stream finds, and closes, the newer client (#121994).
        current = self._clients_by_key.get(key)
        self._node.events.add("stream_ended", client.resource, socket=client.socket, code=code, text=text)
        if current is not None:
            await self.disconnect(key, current)

    def _receive_list(self, client: Client, message: v1beta1.ListAndWatchResponse, size: int) -> None:
        devices = tuple(ListedDevice.from_message(device) for device in message.devices)
        repeated = client.last is not None and set(client.last.devices) == set(devices)
        number = len(self._node.lists)
        received = ReceivedList(number, time.monotonic(), client.resource, client.socket, devices, size, repeated)
        client.last = received
        self._node.lists.append(received)
        self._table.replace_devices(client.resource, devices)
        self._save()
        self._node.events.add(
            "list",
            client.resource,
            list=number,
            healthy=len(received.healthy),
            unhealthy=len(received.ids - received.healthy),
            size=size,
            repeated=repeated,
            duplicates=sorted(received.duplicates),
        )

    async def disconnect(self, key: tuple[str, str], client: Client) -> None:
        self._clients_by_key.pop(key, None)
        if client in self.open:
            self.open.remove(client)
        if self._node.release.keyed_by_path:
            self._table.remove_endpoint(client.resource, client)
        else:
            self._table.stop_endpoint(client.resource)
        self._node.events.add("disconnected", client.resource, socket=client.socket)
        client.cancel_stream()
        await client.close()

    async def deregister(self, resource: str, socket: str) -> None:
        """Remove the client of a removed socket, as the plugin watcher does."""
        key = self._make_key(resource, socket)
        if (client := self._clients_by_key.get(key)) is not None:
            await self.disconnect(key, client)

    def drop(self) -> None:
        for client in self.open:
            client.drop()

    async def close(self) -> None:
        for client in self.open:
            await client.close()
