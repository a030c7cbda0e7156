"""The endpoint of one resource: its Unix socket and its plugin service, from start to end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, TypeAlias

from agent.kubelet.connection import Connection, silence_grpclib
from agent.kubelet.grpc_channel import wait_for_http2
from agent.kubelet.grpc_server_call import DefectHandler, map_calls
from agent.kubelet.plugin import GrantProvider, Plugin, PluginInfoService
from agent.kubelet.socket_file import SocketFile, format_socket_name
from agent.kubelet.wire import ListEncoder, PluginOptions
from agent.registry import Registry

BACKLOG = 16
ANSWER_SECONDS = 10.0  # for an answer of the own socket; long, because a thousand resources may start at once
KUBELET_SECONDS = 0.5  # for the kubelet to close its connection after the end of its stream; usually milliseconds
ABORT_SECONDS = 0.1  # for written data to be sent before a connection is aborted


class Endpoint:
    """One listening socket with one plugin service. Created by `serve`, and never used again after its end.

    path: the path of the socket file. name: its file name, as Register needs it.
    """

    def __init__(
        self, file: SocketFile, plugin: Plugin, options: PluginOptions, info_service: PluginInfoService | None
    ) -> None:
        self._file = file
        self.name, self.path = file.name, file.path
        self._plugin = plugin
        self._info_service = info_service
        self._connections: set[Connection] = set()
        self._ended = asyncio.Event()
        self._server: asyncio.AbstractServer | None = None
        self.options = options

    @classmethod
    @asynccontextmanager
    async def serve(
        cls,
        directory: str,
        resource: str,
        generation: str,
        registry: Registry,
        grants: GrantProvider,
        *,
        on_defect: DefectHandler,
        options: PluginOptions = PluginOptions(),  # noqa: B008  frozen
        encoder: ListEncoder | None = None,
        is_watched: bool = False,
    ) -> AsyncIterator[Endpoint]:
        """Serve a resource during the context. The socket listens before this returns. The end of the context calls
        `end`.

        Args:
            directory: the kubelet's directory for these sockets.
            resource: the resource name.
            generation: a token that was never used before (`make_generation`), because no socket name is used twice.
            registry: the source of the lists.
            grants: decides the grants for containers.
            on_defect: called with each defect of a call.
            options: the options for the kubelet.
            encoder: the encoder of the resource. It keeps the encoded devices for the next endpoints.
            is_watched: serve the plugin watcher too. The file then appears by rename, already listening.

        Raises:
            OSError: the socket cannot be created.
        """
        silence_grpclib()
        plugin = Plugin(resource, registry, grants, on_defect, options=options, encoder=encoder or ListEncoder())
        info_service = PluginInfoService(resource) if is_watched else None
        file = SocketFile(directory, format_socket_name(resource, generation), hidden=is_watched)
        endpoint = cls(file, plugin, options, info_service)
        try:
            await endpoint._listen(on_defect)
            yield endpoint
        finally:
            try:
                await endpoint.end()
            finally:
                endpoint._release()

    @property
    def is_present(self) -> bool:
        """Return whether the socket file of this endpoint still exists."""
        return self._file.is_present

    @property
    def stream_count(self) -> int:
        """The number of open ListAndWatch streams."""
        return len(self._plugin.streams)

    async def wait_for_stream(self) -> None:
        """Return when a ListAndWatch stream is open."""
        await self._plugin.streams.wait_for_stream()

    async def wait_for_streams_end(self, grace: float = 1.0) -> None:
        """Return after a stream was open, and no stream has been open for `grace` seconds."""
        await self._plugin.streams.wait_for_end(grace)

    async def wait_for_verdict(self) -> tuple[bool, str]:
        """Return the next answer of the plugin watcher: registered or not, and the reason. Without a watcher, never
        return.
        """
        if self._info_service is None:
            await asyncio.get_running_loop().create_future()
        assert self._info_service is not None  # noqa: S101  the wait above never ends without a service
        return await self._info_service.wait_for_verdict()

    async def wait_until_ready(self) -> None:
        """Connect to the own socket, as the kubelet does. Register must not be called before this succeeds (#1).

        The HTTP/2 settings frame of the own server is sufficient proof. A complete call would cost as much as the
        registration. The time passes because other endpoints start at the same time.

        Raises:
            OSError: there was no answer, or not in time (TimeoutError).
        """
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                await wait_for_http2(self.path)
        except TimeoutError:
            raise TimeoutError(f"our own socket did not answer within {ANSWER_SECONDS:g} s") from None

    async def end(self, timeout_s: float = 5.0) -> None:
        """End in order, within `timeout_s` seconds. A second call does nothing.

        The handlers of the streams return, so the kubelet sees END_STREAM. The kubelet then closes its connection. It
        must have done so before the resource is registered again. The remaining connections are closed, and then
        aborted.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + max(0.0, timeout_s - 2 * ABORT_SECONDS)
        if self._server is not None:
            self._server.close()
        streaming = (
            {connection for connection in self._connections if connection.calls.tasks} if self.stream_count else set()
        )
        self._plugin.streams.end()
        await _wait_until_done((task for connection in self._connections for task in connection.calls.tasks), deadline)
        close_deadline = min(deadline, loop.time() + KUBELET_SECONDS)
        await _wait_until_done((connection.closed_future for connection in streaming), close_deadline)
        remaining = set(self._connections)
        tasks = [task for connection in remaining for task in connection.calls.tasks]
        for connection in remaining:
            connection.close()
        await _wait_until_done((connection.closed_future for connection in remaining), loop.time() + ABORT_SECONDS)
        for connection in remaining:
            connection.abort()
        await _wait_until_done(
            (*tasks, *(connection.closed_future for connection in remaining)), loop.time() + ABORT_SECONDS
        )

    async def _listen(self, on_defect: DefectHandler) -> None:
        handlers = dict(map_calls(self._plugin, on_defect))
        if self._info_service is not None:
            handlers.update(map_calls(self._info_service, on_defect))
        self._server = await asyncio.get_running_loop().create_unix_server(
            lambda: Connection(handlers, self._connections, self._ended), sock=self._file.socket, backlog=BACKLOG
        )
        self._file.show()

    def _release(self) -> None:
        """Close everything at once, in any state."""
        self._ended.set()
        if self._server is not None:
            self._server.close()
        else:
            self._file.socket.close()
        for connection in set(self._connections):
            connection.abort()
        self._file.remove()


EndpointFactory: TypeAlias = Callable[[], AbstractAsyncContextManager[Endpoint]]  # creates a new endpoint


async def _wait_until_done(waits: Iterable[asyncio.Future[Any]], deadline: float) -> None:
    """Wait for all futures, but not after this deadline of the loop's clock."""
    futures = set(waits)
    if futures:
        await asyncio.wait(futures, timeout=max(0.0, deadline - asyncio.get_running_loop().time()))
