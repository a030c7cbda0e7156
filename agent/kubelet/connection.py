"""One connection of a kubelet to an endpoint, and its calls in progress.

This replaces the Server of grpclib. Its close neither ends streams nor closes connections. With it, a peer that breaks
the protocol can write tracebacks into the log and fill the memory.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Any, cast

from grpclib.config import Configuration
from grpclib.const import Handler, Status
from grpclib.encoding.proto import ProtoCodec
from grpclib.events import _DispatchServerEvents
from grpclib.exceptions import GRPCError
from grpclib.protocol import AbstractHandler, Buffer, H2Protocol, Stream
from grpclib.server import request_handler
from h2.config import H2Configuration
from h2.events import UnknownFrameReceived

MESSAGE_LIMIT = 4 * 1024 * 1024  # bytes of a request; the kubelet has the same limit for received messages
SEND_BYTES = 65536  # bytes that are sent at once, so the limit of the transport still slows down the writer
CONNECTION_LIMIT = 128  # a kubelet has one, and leaks some after many duplicate registrations

_EVENTS = _DispatchServerEvents()
_CONFIGURATION = Configuration().__for_server__()
_H2 = H2Configuration(  # the authority is ignored: kubelets send three kinds
    client_side=False,
    header_encoding="ascii",
    validate_inbound_headers=False,
    validate_outbound_headers=False,
    normalize_inbound_headers=False,
    normalize_outbound_headers=False,
)

log = logging.getLogger(__name__)


class _Codec(ProtoCodec):
    """The codec for protobuf. A response that is bytes is encoded already."""

    def encode(self, message: Any, message_type: Any) -> bytes:  # noqa: ANN401  as grpclib has it
        return message if isinstance(message, bytes) else super().encode(message, message_type)


class _LimitedBuffer(Buffer):
    """The received data of one stream. A length prefix over the limit is an error."""

    async def read(self, size: int) -> bytes:
        if size > MESSAGE_LIMIT:
            raise GRPCError(Status.RESOURCE_EXHAUSTED, f"a request of {size} bytes; the limit is {MESSAGE_LIMIT}")
        return await super().read(size)


class Calls(AbstractHandler):
    """The calls in progress on one connection, one task each."""

    def __init__(self, handlers: dict[str, Handler]) -> None:
        self._handlers = handlers
        self._loop = asyncio.get_running_loop()
        self._tasks: dict[Stream, asyncio.Task[None]] = {}

    @property
    def tasks(self) -> frozenset[asyncio.Task[None]]:
        """The tasks that have not ended."""
        return frozenset(self._tasks.values())

    def accept(self, stream: Stream, headers: list[tuple[str, str]], release_stream: Callable[[], None]) -> None:
        """Start a call."""
        assert stream.id is not None  # noqa: S101  a received stream has a number
        stream.buffer = _LimitedBuffer(partial(stream.connection.ack, stream.id))
        call = request_handler(self._handlers, stream, headers, _Codec(), None, _EVENTS, release_stream)
        task = self._tasks[stream] = self._loop.create_task(call)
        task.add_done_callback(partial(self._finish_call, stream, release_stream))

    def cancel(self, stream: Stream) -> None:
        """Cancel a call, because the peer gave up."""
        if stream in self._tasks:
            self._tasks[stream].cancel()

    def close(self) -> None:
        """Cancel all calls, because the connection is closed."""
        for task in self._tasks.values():
            task.cancel()

    def _finish_call(self, stream: Stream, release_stream: Callable[[], None], _task: asyncio.Task[None]) -> None:
        del self._tasks[stream]
        try:
            release_stream()
        except KeyError:
            return  # grpclib has released the stream, unless the task was cancelled before its first step


class Connection(H2Protocol):
    """One connection. Whatever the peer sends, at worst this connection is closed.

    closed_future: done after the connection is closed.
    """

    def __init__(
        self, handlers: dict[str, Handler], open_connections: set[Connection], endpoint_ended: asyncio.Event
    ) -> None:
        """Create it.

        open_connections: the connections of the endpoint. Each connection adds and removes itself. endpoint_ended: set
        when the endpoint accepts no more connections.
        """
        self.calls = Calls(handlers)
        super().__init__(self.calls, _CONFIGURATION, _H2)
        self.closed_future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._open_connections = open_connections
        self._endpoint_ended = endpoint_ended
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Accept the peer, or abort."""
        if self._endpoint_ended.is_set():  # accepted before the end of the endpoint
            cast("asyncio.Transport", transport).abort()
            return
        if len(self._open_connections) >= CONNECTION_LIMIT:
            cast("asyncio.Transport", transport).abort()
            return
        self._transport = cast("asyncio.Transport", transport)  # a stream socket's; uvloop's is no subclass
        self._open_connections.add(self)
        if len(self._open_connections) == CONNECTION_LIMIT:
            log.warning("%d connections to one of our sockets are open: more are closed at once", CONNECTION_LIMIT)
        super().connection_made(cast("asyncio.Transport", BufferedTransport(self._transport)))
        # Frames of unknown kinds are to be ignored (RFC 9113 §5.5); grpclib raises.
        self.processor.processors[UnknownFrameReceived] = _ignore

    def data_received(self, data: bytes) -> None:
        """Process received bytes."""
        if self._transport is None:
            return
        try:
            super().data_received(data)
        except Exception:  # h2 and grpclib raise many kinds for what a peer can send
            log.debug("closed a connection: the peer broke the protocol", exc_info=True)
            self.close()

    def connection_lost(self, exc: BaseException | None) -> None:
        """Remove the connection."""
        if self._transport is not None:
            self._open_connections.discard(self)
            super().connection_lost(exc)
        self.closed_future.set_result(None)

    def close(self) -> None:
        """Cancel the calls, and close the connection after all written data is sent."""
        if self._transport is not None:
            self.processor.close()

    def abort(self) -> None:
        """Close the connection at once."""
        if self._transport is not None:
            self._transport.abort()


def _ignore(_event: object) -> None:
    pass


def _is_debug_enabled(record: logging.LogRecord) -> bool:
    return logging.getLogger(record.name).isEnabledFor(logging.DEBUG)


def silence_grpclib() -> None:
    """Show the log lines of grpclib about peers only at level DEBUG. They contain no defects of the agent."""
    for name in ("grpclib.server", "grpclib.protocol"):
        logging.getLogger(name).addFilter(_is_debug_enabled)


class BufferedTransport:
    """A transport for grpclib. All writes in one turn of the event loop are sent together at its end.

    grpclib writes the headers, the message and the trailers of an answer one by one, and uvloop sends each at once.
    These would be three system calls, and the kubelet would wake three times.
    """

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._loop = asyncio.get_running_loop()
        self._parts: list[bytes] = []
        self._size = 0

    def write(self, data: bytes) -> None:
        """See `asyncio.WriteTransport`."""
        if self._transport.is_closing():
            self._transport.write(data)  # the transport reports the error
            return
        if data and not self._parts:
            self._loop.call_soon(self._send)
        if data:
            self._parts.append(data)
            self._size += len(data)
        if self._size >= SEND_BYTES:
            self._send()

    def close(self) -> None:
        """Close the transport after all written data is sent."""
        self._send()
        self._transport.close()

    def is_closing(self) -> bool:
        """See `asyncio.BaseTransport`."""
        return self._transport.is_closing()

    def get_extra_info(self, name: str, default: Any = None) -> Any:  # noqa: ANN401  as asyncio has it
        """See `asyncio.BaseTransport`."""
        return self._transport.get_extra_info(name, default)

    def _send(self) -> None:
        parts, self._parts, self._size = self._parts, [], 0
        if parts and not self._transport.is_closing():
            self._transport.write(b"".join(parts))
