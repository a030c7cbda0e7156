"""The control socket: how commands ask the agent that runs. One JSON line in, one JSON line back, and the end.

Root's alone (0600 in a directory of root's). A request names what is wanted in `do`; an answer that has `error` says
why there is no other. It is no part of serving: where the socket cannot be made the agent says so and goes on.
"""

from __future__ import annotations

import asyncio
import errno
import json
import logging
import os
import socket
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any, TypeAlias

from agent.core.language.printable import escape

REQUEST_SECONDS = 5.0  # how long a client may take to say what it wants
MOST = 16  # clients at a time
_LIMIT = 64 * 1024  # bytes of a request

Answer: TypeAlias = Mapping[str, Any]
Answering: TypeAlias = Callable[[Mapping[str, Any]], Awaitable[Answer]]

log = logging.getLogger(__name__)


async def serve(path: str, commands: Mapping[str, Answering]) -> None:
    """Answer at that path until cancelled."""
    try:
        listening = _bind(path)
    except OSError as error:
        log.warning("control: %s cannot be used (%s): commands do not reach this agent", path, error.strerror or error)
        return
    inode = os.stat(path).st_ino
    clients: set[asyncio.Task[None]] = set()
    try:
        async with asyncio.TaskGroup() as tasks:

            def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                if len(clients) >= MOST:
                    writer.close()
                    return
                client = tasks.create_task(_answer(reader, writer, commands))
                clients.add(client)
                client.add_done_callback(clients.discard)

            server = await asyncio.start_unix_server(connected, sock=listening, limit=_LIMIT)
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                server.close()
                for client in clients:
                    client.cancel()
    finally:
        with suppress(OSError):
            if os.stat(path).st_ino == inode:
                os.unlink(path)


def ask(path: str, request: Mapping[str, Any], timeout: float) -> Answer:
    """What the agent behind a control socket answers.

    Raises:
        OSError: nobody is there, or may not be asked, or does not answer in `timeout` seconds.
        ValueError: what came back is no answer.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(timeout)
        connection.connect(path)
        connection.sendall(json.dumps(request).encode() + b"\n")
        with connection.makefile("rb") as answer:
            said = json.loads(answer.readline() or b"null")
    if not isinstance(said, dict):
        raise ValueError("no answer")  # noqa: TRY004  the value of the text is wrong
    return said


def _bind(path: str) -> socket.socket:
    """A listening socket; one that an agent left is replaced, one where somebody answers is not."""
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as other:
        other.setblocking(False)
        try:
            other.connect(path)
        except (ConnectionRefusedError, FileNotFoundError):
            with suppress(FileNotFoundError):
                os.unlink(path)
        else:
            raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        os.fchmod(listening.fileno(), 0o600)  # before it has a name: nobody connects in between
        listening.bind(path)
    except BaseException:
        listening.close()
        raise
    return listening


async def _answer(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, commands: Mapping[str, Answering]
) -> None:
    try:
        async with asyncio.timeout(REQUEST_SECONDS):
            line = await reader.readline()
        answer = await _answered(line, commands)
        writer.write(json.dumps(answer).encode() + b"\n")
        async with asyncio.timeout(REQUEST_SECONDS):
            await writer.drain()
    except (OSError, TimeoutError, ValueError):
        return  # a client that went away, says nothing, or too much
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


async def _answered(line: bytes, commands: Mapping[str, Answering]) -> Answer:
    try:
        request = json.loads(line)
    except (ValueError, RecursionError):
        return {"error": "no JSON"}
    if not isinstance(request, dict):
        return {"error": "no JSON object"}
    command = commands.get(str(request.get("do")))
    if command is None:
        return {"error": f"this agent cannot {escape(str(request.get('do')))}; it can {', '.join(sorted(commands))}"}
    return await command(request)
