"""A Unix socket with gRPC services."""

import asyncio
import contextlib
import os
import socket
from functools import partial
from typing import Any

from agent.kubelet.connection import Connection

_CLOSE_SECONDS = 1.0  # for the peers to read what was written


class GrpcListener:
    """A socket that is bound first and listens later. Between the two, the file exists and connections are refused."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.setblocking(False)
        try:
            self._socket.bind(path)
        except BaseException:
            self._socket.close()
            raise
        self._connections: set[Connection] = set()
        self._closed = asyncio.Event()
        self._accept: asyncio.Task[Any] | None = None

    def listen(self) -> None:
        self._socket.listen(128)

    def rename(self, path: str) -> None:
        os.rename(self.path, path)
        self.path = path

    async def serve(self, service: Any) -> None:  # noqa: ANN401
        """Serve until cancelled."""
        loop = asyncio.get_running_loop()
        make_connection = partial(Connection, service.__mapping__(), self._connections, self._closed)
        ready = asyncio.Event()
        # Not asyncio's Server: from 3.13 on it removes the file, but a kubelet leaves the file. Not sock_accept:
        # after a cancellation the accepted connection would be lost.
        loop.add_reader(self._socket, ready.set)
        try:
            while True:
                await ready.wait()
                ready.clear()
                with contextlib.suppress(OSError):
                    accepted = self._socket.accept()[0]
                    # With a cancellation in between, uvloop would close the connection below its protocol.
                    self._accept = loop.create_task(loop.connect_accepted_socket(make_connection, accepted))
                    await asyncio.shield(self._accept)
        finally:
            loop.remove_reader(self._socket)

    def drop(self) -> None:
        """Abort all connections, as the end of a process does."""
        for connection in set(self._connections):
            connection.abort()

    async def close(self) -> None:
        """Close the connections and wait for the end of their calls. The file stays."""
        self._closed.set()
        self._socket.close()
        if self._accept is not None:
            await asyncio.wait({self._accept})
        connections = set(self._connections)
        waits = {wait for connection in connections for wait in (*connection.calls.tasks, connection.closed_future)}
        for connection in connections:
            connection.close()
        if waits:
            await asyncio.wait(waits, timeout=_CLOSE_SECONDS)
        self.drop()
