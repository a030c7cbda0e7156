"""A Unix socket with gRPC services."""

import asyncio
import contextlib
import os
import socket
from collections.abc import Sequence
from typing import Any

from grpclib.protocol import H2Protocol
from grpclib.server import Server


class _Connections(Server):
    """The server of grpclib without its socket. It records every connection, so all can be ended."""

    def __init__(self, services: Sequence[Any]) -> None:
        super().__init__(services)
        self.open: list[H2Protocol] = []

    def _protocol_factory(self) -> H2Protocol:
        protocol = super()._protocol_factory()
        self.open = [connection for connection in self.open if not _is_lost(connection)]
        self.open.append(protocol)
        return protocol


def _is_lost(protocol: H2Protocol) -> bool:
    return hasattr(protocol, "connection") and protocol.connection.is_closing()


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
        self._connections: _Connections | None = None

    def listen(self) -> None:
        self._socket.listen(128)

    def rename(self, path: str) -> None:
        os.rename(self.path, path)
        self.path = path

    async def serve(self, *services: Any) -> None:  # noqa: ANN401
        """Serve until cancelled."""
        loop = asyncio.get_running_loop()
        self._connections = _Connections(services)
        ready = asyncio.Event()
        # Not asyncio's Server: from 3.13 on it removes the file, but a kubelet leaves the file. Not sock_accept:
        # after a cancellation the accepted connection would be lost.
        loop.add_reader(self._socket, ready.set)
        try:
            while True:
                await ready.wait()
                ready.clear()
                with contextlib.suppress(OSError):
                    await self._accept(self._socket.accept()[0], self._connections)
        finally:
            loop.remove_reader(self._socket)

    async def _accept(self, connection: socket.socket, connections: _Connections) -> None:
        try:
            await asyncio.get_running_loop().connect_accepted_socket(connections._protocol_factory, connection)  # noqa: SLF001
        except BaseException:
            connection.close()
            raise

    def drop(self) -> None:
        """Abort all connections, as the end of a process does."""
        for protocol in self._connections.open if self._connections else ():
            if hasattr(protocol, "connection") and not _is_lost(protocol):  # a new connection has none yet
                protocol.connection._transport.abort()  # noqa: SLF001

    async def close(self) -> None:
        """Close the connections and wait for the end of their calls. The file stays."""
        self._socket.close()
        if self._connections is None:
            return
        for protocol in self._connections.open:
            if hasattr(protocol, "processor"):
                protocol.processor.close("kubelet stopped")
        for handler in self._connections._handlers:  # noqa: SLF001
            await handler.wait_closed()
