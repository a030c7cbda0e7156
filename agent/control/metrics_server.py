"""Metrics over HTTP, if agent.toml enables them: GET /metrics, one answer for each connection.

This is no part of serving devices. If the server cannot listen, the agent logs that and continues.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable
from contextlib import nullcontext

from agent.control.control_socket import bind_socket_file, remove_socket_file
from agent.core.report.exposition import CONTENT_TYPE

REQUEST_SECONDS = 5.0  # for the request of a client, and for its read of the answer
MAX_CLIENTS = 8  # clients at a time
_LIMIT = 16 * 1024  # bytes of a request
_UNIX = "unix:"

log = logging.getLogger(__name__)


async def serve(listen: str, collect_metrics: Callable[[], Awaitable[str]]) -> None:
    """Answer requests at this address until cancelled. Return at once if `listen` is empty."""
    if not listen:
        return
    try:
        server_socket = await asyncio.to_thread(_bind, listen)
    except OSError as error:
        log.warning("metrics: %s cannot be used (%s): the agent serves no metrics", listen, error.strerror or error)
        return
    with remove_socket_file(listen.removeprefix(_UNIX)) if listen.startswith(_UNIX) else nullcontext():
        await _serve_clients(server_socket, collect_metrics)


async def _serve_clients(server_socket: socket.socket, collect_metrics: Callable[[], Awaitable[str]]) -> None:
    """Answer up to MAX_CLIENTS clients at a time, until cancelled."""
    clients: set[asyncio.Task[None]] = set()
    async with asyncio.TaskGroup() as tasks:

        def accept_client(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            if len(clients) >= MAX_CLIENTS:
                writer.close()
                return
            client = tasks.create_task(_handle_client(reader, writer, collect_metrics))
            clients.add(client)
            client.add_done_callback(clients.discard)
            # A close would wait for the client to read the rest. This also covers a task that never started.
            client.add_done_callback(lambda _: writer.transport.abort())

        start = asyncio.start_unix_server if server_socket.family is socket.AF_UNIX else asyncio.start_server
        server = await start(accept_client, sock=server_socket, limit=_LIMIT)
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            server.close()
            for client in clients:
                client.cancel()


def _bind(listen: str) -> socket.socket:
    """Return a socket that listens at this address. Replace a socket file without a listener.

    Raises:
        OSError: the address cannot be used, or another process uses it.
    """
    if not listen.startswith(_UNIX):
        host, _, port = listen.rpartition(":")
        family = socket.AF_INET6 if host.startswith("[") else socket.AF_INET
        return socket.create_server((host.strip("[]"), int(port)), family=family)
    return bind_socket_file(listen.removeprefix(_UNIX))


async def _handle_client(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, collect_metrics: Callable[[], Awaitable[str]]
) -> None:
    try:
        async with asyncio.timeout(REQUEST_SECONDS):
            request = await reader.readuntil(b"\r\n\r\n")
        writer.write(await _handle_request(request.split(b"\r\n", 1)[0], collect_metrics))
        async with asyncio.timeout(REQUEST_SECONDS):
            await writer.drain()
            writer.close()
            await writer.wait_closed()
    except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        return  # the client is gone, sends nothing or too much, or does not read its answer


async def _handle_request(line: bytes, collect_metrics: Callable[[], Awaitable[str]]) -> bytes:
    match line.split(b" "):
        case [b"GET" | b"HEAD" as method, path, version] if version.startswith(b"HTTP/1."):
            if path.partition(b"?")[0] != b"/metrics":
                return _build_response("404 Not Found", b"the only path is /metrics\n", head=method == b"HEAD")
            try:
                text = await collect_metrics()
            except Exception:  # a defect in a metric must not end the service of devices
                log.exception("metrics: a defect")
                return _build_response(
                    "500 Internal Server Error", b"internal error. The log of the agent has the details\n"
                )
            return _build_response("200 OK", text.encode(), head=method == b"HEAD")
        case [_, _, version] if version.startswith(b"HTTP/1."):
            return _build_response("405 Method Not Allowed", b"use GET or HEAD\n")
    return _build_response("400 Bad Request", b"the request is not HTTP/1\n")


def _build_response(status: str, body: bytes, *, head: bool = False) -> bytes:
    kind = CONTENT_TYPE if status.startswith("200") else "text/plain; charset=utf-8"
    fields = f"Content-Type: {kind}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n"
    return f"HTTP/1.1 {status}\r\n{fields}\r\n".encode() + (b"" if head else body)
