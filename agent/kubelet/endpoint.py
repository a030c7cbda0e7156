"""The endpoint of one resource: its Unix socket, the plugin served on it, and the way both end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, TypeAlias

from agent.kubelet.connection import Connection, silence_grpclib
from agent.kubelet.grpc_channel import wait_for_http2
from agent.kubelet.grpc_server_call import DefectHandler, map_calls
from agent.kubelet.plugin import GrantProvider, Plugin
from agent.kubelet.plugin_watcher import PluginInfoService
from agent.kubelet.socket_file import SocketFile, format_socket_name
from agent.kubelet.wire import ListEncoder, PluginOptions
from agent.registry import Registry

BACKLOG = 16
ANSWER_SECONDS = 10.0  # for our own socket to answer us; of a thousand resources that start at once it takes some
KUBELET_SECONDS = 0.5  # for the kubelet to close its connection when its stream has ended; it takes milliseconds
ABORT_SECONDS = 0.1  # for what was written to go out before a connection is torn down


class Endpoint:
    """One socket that listens, and the one plugin behind it. Made by `serve`; never used again once ended."""

    def __init__(
        self, file: SocketFile, plugin: Plugin, options: PluginOptions, info_service: PluginInfoService | None
    ) -> None:
        self._file = file
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
        """Serve a resource; the socket listens before this returns. Its end ends all there is, as `end` does.

        Args:
            directory: the kubelet's directory for these sockets.
            resource: the resource's name.
            generation: a token never used before (`new_generation`): a name is never used twice.
            registry: where the lists come from.
            grants: who decides what containers get.
            on_defect: told of every defect that came up in a call.
            options: what the kubelet is asked for.
            encoder: the resource's, to keep over several endpoints what was encoded.
            is_watched: serve the plugin watcher too, and let the file appear by rename, already listening.

        Raises:
            OSError: the socket cannot be made.
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
    def name(self) -> str:
        """The file's name, as Register wants it."""
        return self._file.name

    @property
    def path(self) -> str:
        """The file's path."""
        return self._file.path

    @property
    def is_present(self) -> bool:
        """Whether its own file is still there."""
        return self._file.is_present

    @property
    def stream_count(self) -> int:
        """How many ListAndWatch streams are open."""
        return len(self._plugin.streams)

    async def wait_for_stream(self) -> None:
        """Return when a ListAndWatch stream is open; at once if one is."""
        await self._plugin.streams.wait_for_stream()

    async def wait_for_streams_end(self, grace: float = 1.0) -> None:
        """Return when a stream was open and none has been for `grace` seconds."""
        await self._plugin.streams.wait_for_end(grace)

    async def wait_for_verdict(self) -> tuple[bool, str]:
        """The plugin watcher's next verdict: whether it registered us, and why not. Never, without a watcher."""
        if self._info_service is None:
            await asyncio.get_running_loop().create_future()
        assert self._info_service is not None  # noqa: S101  nobody comes here without one
        return await self._info_service.wait_for_verdict()

    async def wait_until_ready(self) -> None:
        """Dial ourselves through the file, as the kubelet will: Register must not come before this works (#1).

        The greeting of our HTTP/2 is proof enough; a whole call would cost as much as the registration itself. What is
        waited for is our own turn.

        Raises:
            OSError: nobody answered, or not in time (TimeoutError is one).
        """
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                await wait_for_http2(self.path)
        except TimeoutError:
            raise TimeoutError(f"our own socket did not answer within {ANSWER_SECONDS:g} s") from None

    async def end(self, timeout_s: float = 5.0) -> None:
        """End in good order, in that many seconds at most; a second time there is nothing left to do.

        The streams' handlers return, so that the kubelet sees END_STREAM; the kubelet closes its connection when it
        has taken that in, which it must have before the resource is registered again; what
        is left is closed, and what does not close is torn down.
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
        """Let go of everything at once, whatever state it is in."""
        self._ended.set()
        if self._server is not None:
            self._server.close()
        else:
            self._file.socket.close()
        for connection in set(self._connections):
            connection.abort()
        self._file.remove()


EndpointFactory: TypeAlias = Callable[[], AbstractAsyncContextManager[Endpoint]]  # makes a fresh one


async def _wait_until_done(waits: Iterable[asyncio.Future[Any]], deadline: float) -> None:
    """Wait until all are done, but no longer than to that moment of the loop's clock."""
    futures = set(waits)
    if futures:
        await asyncio.wait(futures, timeout=max(0.0, deadline - asyncio.get_running_loop().time()))
