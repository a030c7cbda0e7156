"""A channel to a Unix socket of the kubelet's, or of our own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from grpclib.client import Channel, Handler
from grpclib.config import Configuration
from grpclib.encoding.base import CodecBase
from grpclib.protocol import H2Protocol

_WINDOW = 65_535  # bytes that wait to be read: the least that HTTP/2 has (RFC 9113 §6.9.2)
SETTINGS = b"\x04"  # the kind of frame that a server begins with (RFC 9113 §3.4)


@asynccontextmanager
async def dial(path: str) -> AsyncIterator[Channel]:
    """A connected channel, closed at the end whatever happens. It sends no keepalive pings.

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


async def wait_for_http2(path: str) -> None:
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
        raise ConnectionError("what answers at it is no server of HTTP/2")


class RawCodec(CodecBase):
    """Messages as the bytes that they are."""

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
    """A channel of plain bytes to a service that may say anything: `limit` bytes at most until `heard`, else it ends.

    So a length that a message begins with costs no more than that, nor does what nobody reads.

    Attributes:
        flooded: that was so.
    """

    def __init__(self, path: str, limit: int) -> None:
        window = min(limit, _WINDOW)
        config = Configuration(http2_connection_window_size=window, http2_stream_window_size=window)
        super().__init__(path=path, codec=RawCodec(), config=config)
        self.is_flooded = False
        self._limit = self._remaining = limit

    def reset_limit(self) -> None:
        """A message was read: there is room for another."""
        self._remaining = self._limit

    def take_room(self, size: int) -> bool:
        """Whether so many bytes more may come."""
        self._remaining -= size
        self.is_flooded = self.is_flooded or self._remaining < 0
        return not self.is_flooded

    def _protocol_factory(self) -> H2Protocol:
        return _LimitedProtocol(self)


class _LimitedProtocol(H2Protocol):
    """The connection of a `Wary` channel."""

    def __init__(self, channel: LimitedChannel) -> None:
        super().__init__(Handler(), channel._config, channel._h2_config)  # noqa: SLF001  as Channel makes its own
        self._channel = channel

    def data_received(self, data: bytes) -> None:
        """See `H2Protocol`."""
        if not self._channel.take_room(len(data)):
            self.processor.close("it says too much")
            return
        try:
            super().data_received(data)
        except Exception:  # noqa: BLE001  h2 and grpclib raise many kinds for what a peer can send
            self.processor.close("it is none of gRPC")
