"""The control socket: commands send requests to the running agent. One JSON line in, one JSON line back, and the end.

Only root can use it (0600 in a directory of root). The key `do` of a request names the command. An answer with `error`
contains the reason of the failure. The socket is no part of serving devices. If it cannot be created, the agent logs
that and continues.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import socket
import stat
import struct
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TypeAlias

from agent.core.language.safe_text import escape

REQUEST_SECONDS = 5.0  # for the request of a client
MAX_CLIENTS = 16  # clients of one user at a time; then the oldest idle client is closed
_LIMIT = 64 * 1024  # bytes of a request

ControlAnswer: TypeAlias = Mapping[str, Any]
CommandHandler: TypeAlias = Callable[[Mapping[str, Any]], Awaitable[ControlAnswer]]

log = logging.getLogger(__name__)


async def serve(path: str, commands: Mapping[str, CommandHandler]) -> None:
    """Answer requests at this path until cancelled."""
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        server_socket = bind_socket_file(path, 0o600)
    except OSError as error:
        log.warning("control: %s cannot be used (%s): commands do not reach this agent", path, error.strerror or error)
        return
    clients: list[_Client] = []
    with remove_socket_file(path):
        async with asyncio.TaskGroup() as tasks:

            def accept_client(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                client = _Client(_find_user(writer), reader, writer)
                if not _make_room(clients, client.user):
                    writer.close()
                    return
                client.task = tasks.create_task(client.answer(commands))
                clients.append(client)
                client.task.add_done_callback(lambda _: clients.remove(client))

            server = await asyncio.start_unix_server(accept_client, sock=server_socket, limit=_LIMIT)
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                server.close()
                for client in clients:
                    client.end()


@contextmanager
def remove_socket_file(path: str) -> Iterator[None]:
    """Remove the socket file at the end of the context, if it still is the same file."""
    inode = _find_inode(path)
    try:
        yield
    finally:
        if inode is not None and _find_inode(path) == inode:
            with suppress(OSError):
                os.unlink(path)


def _find_inode(path: str) -> int | None:
    try:
        return os.stat(path).st_ino
    except OSError:
        return None


def query_agent(path: str, request: Mapping[str, Any], timeout: float) -> ControlAnswer:
    """Send a request to the agent of a control socket and return the answer.

    Raises:
        OSError: no agent listens, access is denied, or there is no answer within `timeout` seconds.
        ValueError: the answer is not valid.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(timeout)
        connection.connect(path)
        connection.sendall(json.dumps(request).encode() + b"\n")
        with connection.makefile("rb") as answer:
            reply = json.loads(answer.readline() or b"null")
    if not isinstance(reply, dict):
        raise ValueError("no answer")  # noqa: TRY004  the value of the text is wrong
    return reply


def bind_socket_file(path: str, mode: int | None = None) -> socket.socket:
    """Return a socket that is bound to this path. Replace a socket file without a listener.

    mode: the access mode of the file.

    Raises:
        OSError: the path cannot be used, or another process listens there.
    """
    with suppress(FileNotFoundError), socket.socket(socket.AF_UNIX) as other:
        if not stat.S_ISSOCK(os.stat(path).st_mode):
            raise FileExistsError(f"{path} is no socket")
        other.setblocking(False)  # a listener with a full queue would block this connect
        try:
            other.connect(path)
        except ConnectionRefusedError:
            os.unlink(path)
    server_socket = socket.socket(socket.AF_UNIX)
    try:
        if mode is not None:
            os.fchmod(server_socket.fileno(), mode)  # before the bind, so no other user can connect
        server_socket.bind(path)
    except BaseException:
        server_socket.close()
        raise
    return server_socket


class _Client:
    """One connected client.

    is_silent: it has not sent its request. is_waiting: it waits for a change, and its request changes nothing.
    is_closing: the agent closes the connection.
    """

    def __init__(self, user: int | None, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.user = user
        self.reader = reader
        self.writer = writer
        self.is_silent = True
        self.is_waiting = False
        self.is_closing = False
        self.task: asyncio.Task[None] | None = None

    @property
    def is_idle(self) -> bool:
        """Return whether the client can be closed for another one: it sent no request, or is gone and waits for a
        change.

        A request that changes something runs to its end, even if the client is gone.
        """
        return not self.is_closing and (self.is_silent or (self.is_waiting and self.reader.at_eof()))

    def end(self) -> None:
        """Close the connection, with or without an answer."""
        self.is_closing = True
        self.writer.close()
        if self.task is not None:
            self.task.cancel()  # the task may not have started

    async def answer(self, commands: Mapping[str, CommandHandler]) -> None:
        """Read the request and answer."""
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                line = await self.reader.readline()
            self.is_silent = False
            request = _parse_request(line)
            self.is_waiting = "unlike" in request
            answer = request if "error" in request else await _run_command(request, commands)
            self.writer.write(await asyncio.to_thread(_encode_answer, answer))  # it may be long
            async with asyncio.timeout(REQUEST_SECONDS):
                await self.writer.drain()
                self.writer.close()
                await self.writer.wait_closed()
        except (OSError, TimeoutError, ValueError):
            return  # the client is gone, sends nothing or too much, or does not read its answer
        finally:
            self.writer.transport.abort()  # a close would wait for the client to read the rest


def _make_room(clients: Sequence[_Client], user: int | None) -> bool:
    """Return whether one more client of this user can connect.

    A client never replaces a client of another user, or a client that waits for an answer.
    """
    user_clients = [client for client in clients if client.user == user]
    if len(user_clients) < MAX_CLIENTS:
        return True
    idle_client = next((client for client in user_clients if client.is_idle), None)
    if idle_client is None:
        return False
    idle_client.end()
    return True


def _find_user(writer: asyncio.StreamWriter) -> int | None:
    """Return the user ID of the peer (SO_PEERCRED, unix(7)), or None."""
    connection = writer.get_extra_info("socket")
    try:
        credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    except OSError:
        return None
    return int(struct.unpack("3i", credentials)[1])


def _encode_answer(answer: ControlAnswer) -> bytes:
    return json.dumps(answer).encode() + b"\n"


def _parse_request(line: bytes) -> Mapping[str, Any]:
    """Return the request of a client, or an error as the answer."""
    try:
        request = json.loads(line)
    except (ValueError, RecursionError):
        return {"error": "the request is not valid JSON"}
    return (
        request
        if isinstance(request, dict) and "error" not in request
        else {"error": "the request is not a JSON object"}
    )


async def _run_command(request: Mapping[str, Any], commands: Mapping[str, CommandHandler]) -> ControlAnswer:
    command = commands.get(str(request.get("do")))
    if command is None:
        return {
            "error": f"unknown command {escape(str(request.get('do')))}. The commands are {', '.join(sorted(commands))}"
        }
    try:
        return await command(request)
    except Exception:  # a defect in a command must not end the service of devices
        log.exception("control: a defect")
        return {"error": "internal error. The log of the agent has the details"}
