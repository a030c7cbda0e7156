"""The kubelet's side of a measurement: registers, dials back inside Register, reads lists, allocates.

The simulated kubelet models more than is measured here and costs more than what is measured; this one keeps only what
the other side can feel: the directory is emptied at its start, Register is answered after the dial-back and the
options, a stream is never tried again.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from bench.http2 import Client, Server
from bench.waits import Waits

SERVICE = "/v1beta1.DevicePlugin/"
SOCKET = "kubelet.sock"
PODS = "pods.sock"  # PodResources; there are no pods


@dataclass(slots=True)
class Stream:
    """The lists on the stream of one resource since the start of this kubelet."""

    client: Client
    lists: int = 0
    last: bytes = b""
    at: float = 0.0
    open: bool = True

    @property
    def unhealthy(self) -> int:
        return self.last.count(b"\x12\x09Unhealthy")

    @property
    def healthy(self) -> int:
        return self.last.count(b"\x12\x07Healthy")


@dataclass
class Kubelet:
    """One kubelet in one directory, with as many lives as wanted."""

    directory: str
    streams: dict[str, Stream] = field(default_factory=dict)
    started: float = 0.0

    def __post_init__(self) -> None:
        self._servers: list[asyncio.Server] = []
        self._connections: list[Server] = []
        self._waits = Waits()
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Empty the directory and listen."""
        os.makedirs(self.directory, exist_ok=True)
        for name in os.listdir(self.directory):
            os.unlink(os.path.join(self.directory, name))
        loop = asyncio.get_running_loop()
        for name, answer in ((PODS, _no_pods), (SOCKET, self._register)):
            path = os.path.join(self.directory, name)
            self._servers.append(await loop.create_unix_server(partial(self._connection, answer), path))
        self.started = time.perf_counter()

    def stop(self) -> None:
        """Be gone, as when killed: connections are closed, sockets stay."""
        for server in self._servers:
            server.close()
        self._servers.clear()
        for connection in (*self._connections, *(stream.client for stream in self.streams.values())):
            connection.transport.abort()
        self._connections.clear()
        self.streams = {}

    async def until(self, condition: Callable[[], bool]) -> None:
        """Return when it holds; it is looked at after each list, and whenever a stream ends."""
        await self._waits.until(condition)

    async def listed(self, count: int) -> float:
        """When the last of so many resources had its first list."""
        await self.until(lambda: sum(stream.lists > 0 for stream in self.streams.values()) >= count)
        return max(stream.at for stream in self.streams.values())

    async def allocate(self, resource: str, id: str) -> bytes:  # noqa: A002  the API's own word
        """One container with one device."""
        raw = id.encode()
        container = b"\x0a" + bytes((len(raw),)) + raw
        return await self.streams[resource].client.ask(
            SERVICE + "Allocate", b"\x0a" + bytes((len(container),)) + container
        )

    def _connection(self, answer: Callable[[bytes, Callable[[], None]], None]) -> Server:
        connection = Server(answer)
        self._connections.append(connection)
        return connection

    def _register(self, request: bytes, answer: Callable[[], None]) -> None:
        texts = strings(request)
        task = asyncio.ensure_future(self._dial_back(texts[2], texts[3], answer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _dial_back(self, endpoint: str, resource: str, answer: Callable[[], None]) -> None:
        path = os.path.join(self.directory, endpoint)
        try:
            _, client = await asyncio.get_running_loop().create_unix_connection(Client, path)
        except OSError:
            return
        await client.ask(SERVICE + "GetDevicePluginOptions", b"")
        answer()
        stream = self.streams[resource] = Stream(client)

        def listen(body: bytes | None) -> None:
            if body is None:
                stream.open = False
            else:
                stream.at = time.perf_counter()
                stream.lists += 1
                stream.last = body
            self._waits.look()

        client.call(SERVICE + "ListAndWatch", b"", listen)


def _no_pods(request: bytes, answer: Callable[[], None]) -> None:
    """Say that nothing is held."""
    del request
    answer()


def strings(body: bytes) -> dict[int, str]:
    """Decode the texts of a small protobuf message, by field number."""
    found = {}
    at = 0
    while at + 2 <= len(body):
        size = body[at + 1]
        if body[at] & 7 == 2:
            found[body[at] >> 3] = body[at + 2 : at + 2 + size].decode("utf-8", "replace")
        at += 2 + size
    return found
