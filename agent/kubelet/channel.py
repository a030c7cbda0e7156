"""A channel to a Unix socket of the kubelet's, or of our own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from grpclib.client import Channel


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
