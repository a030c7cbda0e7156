"""Client channels to Unix sockets: of the kubelet, of services, and of this agent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from grpclib.client import Channel, Handler
from grpclib.config import Configuration
from grpclib.encoding.base import CodecBase
from grpclib.protocol import H2Protocol

_WINDOW = 65_535  # bytes of unread data: the smallest window of HTTP/2 (RFC 9113 §6.9.2)
SETTINGS = b"\x04"  # the type of the first frame of a server (RFC 9113 §3.4)


@asynccontextmanager
async def dial(path: str) -> AsyncIterator[Channel]:
    """Open a channel for the duration of the context. The channel sends no keepalive pings.

    The connection is opened before any call. So a failure here never reached the other side. A call that fails to
    connect would leave the timer of its deadline.

    Raises:
        OSError: there is no listener.
    """
    channel = Channel(path=path)
    try:
        await channel.__connect__()
        yield channel
    finally:
        channel.close()


async def wait_for_http2(path: str) -> None:
    """Return after an HTTP/2 server at this socket has sent its first frame. No call is made.

    Raises:
        OSError: there is no listener, or it is not an HTTP/2 server.
    """
    reader, writer = await asyncio.open_unix_connection(path)
    try:
        head = await reader.read(9)
    finally:
        writer.close()
    if head[3:4] != SETTINGS:
        raise ConnectionError("the listener is not an HTTP/2 server")


class RawCodec(CodecBase):
    """A codec for messages that are bytes already."""

    __content_subtype__ = "proto"

    def encode(self, message: Any, message_type: Any) -> bytes:  # noqa: ANN401  as grpclib has it
        """See `CodecBase`."""
        del message_type
        return bytes(message)

    def decode(self, data: bytes, message_type: Any) -> bytes:  # noqa: ANN401  as grpclib has it
        """See `CodecBase`."""
        del message_type
        return data


class LimitedChannel(Channel):
    """A channel for bytes to a service that is not trusted. At most `limit` bytes can arrive until `reset_limit`.

    So a large length prefix, or unread data, costs at most this much memory.

    Attributes:
        is_flooded: the limit was exceeded. Then the connection is closed.
    """

    def __init__(self, path: str, limit: int) -> None:
        window = min(limit, _WINDOW)
        config = Configuration(http2_connection_window_size=window, http2_stream_window_size=window)
        super().__init__(path=path, codec=RawCodec(), config=config)
        self.is_flooded = False
        self._limit = self._remaining = limit

    def reset_limit(self) -> None:
        """Allow another `limit` bytes, because a message was read."""
        self._remaining = self._limit

    def take_room(self, size: int) -> bool:
        """Count received bytes. Return whether they are within the limit."""
        self._remaining -= size
        self.is_flooded = self.is_flooded or self._remaining < 0
        return not self.is_flooded

    def _protocol_factory(self) -> H2Protocol:
        return _LimitedProtocol(self)


class _LimitedProtocol(H2Protocol):
    """The connection of a `LimitedChannel`."""

    def __init__(self, channel: LimitedChannel) -> None:
        super().__init__(Handler(), channel._config, channel._h2_config)  # noqa: SLF001  the same as in Channel
        self._channel = channel

    def data_received(self, data: bytes) -> None:
        """See `H2Protocol`."""
        if not self._channel.take_room(len(data)):
            self.processor.close("the answer is too long")
            return
        try:
            super().data_received(data)
        except Exception:  # noqa: BLE001  h2 and grpclib raise many kinds for what a peer can send
            self.processor.close("not gRPC")
