"""A channel to a Unix socket of the kubelet's, or of our own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from grpclib.client import Channel

SETTINGS = b"\x04"  # the kind of frame that a server begins with (RFC 9113 §3.4)


@asynccontextmanager
async def dial(path: str) -> AsyncIterator[Channel]:
    """A connected channel, closed at the end whatever happens. It sends no keepalive pings (kubelet-contract #28).

    Connects first, apart from any call: what fails here never reached the other side, and a call that fails to
    connect would leave the timer of its deadline behind.

    Raises:
        OSError: nobody listens there.
    """
    channel = Channel(path=path)
    try:
        await channel.__connect__()
        yield channel
    finally:
        channel.close()


async def greeted(path: str) -> None:
    """Return when a server of HTTP/2 has greeted us at a socket. No call is made.

    Raises:
        OSError: nobody listens there, or something else does.
    """
    reader, writer = await asyncio.open_unix_connection(path)
    try:
        head = await reader.read(9)
    finally:
        writer.close()
    if head[3:4] != SETTINGS:
        raise ConnectionError(f"{path} does not answer as a server of HTTP/2")
