"""HTTP/2 and gRPC for a measurement, as little as necessary, so that the measuring side costs almost nothing.

Sends what grpc-go sends (its headers, indexed from the second call on) and reads messages without looking at headers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
END_STREAM = ACK = 1
END_HEADERS = 4
MOST = 2**31 - 1
WINDOW = 16 * 1024 * 1024  # of a stream: where grpc-go's own estimate ends up on a fast connection

# RFC 7541: 0x83 `:method: POST`, 0x86 `:scheme: http`, 0x88 `:status: 200`; 31 is content-type.
_ANSWER = b"\x88\x0f\x10\x10application/grpc"
_TRAILERS = b"\x00\x0bgrpc-status\x010"


class CallFailed(Exception):  # noqa: N818  as gRPC says it
    """A call ended without a message."""


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """One frame."""
    return len(payload).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + payload


def message(body: bytes) -> bytes:
    """Encode a gRPC message without compression."""
    return b"\0" + len(body).to_bytes(4, "big") + body


class Connection(asyncio.Protocol):
    """Frames in and out. `on_message(stream, body)` handles complete messages."""

    def __init__(self, *, client: bool) -> None:
        self.closed = asyncio.get_running_loop().create_future()
        self._client = client
        self._unread = bytearray()
        self._bodies: dict[int, bytearray] = {}
        self._preface = 0 if client else len(PREFACE)

    def connection_made(self, transport: asyncio.Transport) -> None:
        self.transport = transport
        settings = frame(SETTINGS, 0, 0, b"\0\4" + WINDOW.to_bytes(4, "big"))
        window = frame(WINDOW_UPDATE, 0, 0, (MOST - 65535).to_bytes(4, "big"))
        transport.write((PREFACE if self._client else b"") + settings + window)

    def connection_lost(self, exc: BaseException | None) -> None:
        del exc
        if not self.closed.done():
            self.closed.set_result(None)

    def data_received(self, data: bytes) -> None:
        unread = self._unread
        unread += data
        at = 0
        if self._preface:
            if len(unread) < self._preface:
                return
            at, self._preface = self._preface, 0
        while len(unread) - at >= 9:
            size = int.from_bytes(unread[at : at + 3], "big")
            if len(unread) - at - 9 < size:
                break
            kind, flags = unread[at + 3], unread[at + 4]
            stream = int.from_bytes(unread[at + 5 : at + 9], "big")
            self._frame(kind, flags, stream, unread[at + 9 : at + 9 + size])
            at += 9 + size
        del unread[:at]

    def _frame(self, kind: int, flags: int, stream: int, payload: bytearray) -> None:
        if kind == DATA:
            body = self._bodies.setdefault(stream, bytearray())
            body += payload
            while len(body) >= 5 and len(body) >= 5 + (size := int.from_bytes(body[1:5], "big")):
                whole = bytes(body[5 : 5 + size])
                del body[: 5 + size]
                self.on_message(stream, whole)
        elif kind == SETTINGS and not flags & ACK:
            self.transport.write(frame(SETTINGS, ACK, 0))
        elif kind == PING and not flags & ACK:
            self.transport.write(frame(PING, ACK, 0, bytes(payload)))
        if (kind == RST_STREAM) or (kind in {DATA, HEADERS} and flags & END_STREAM):
            self._bodies.pop(stream, None)
            self.on_end(stream)

    def on_message(self, stream: int, body: bytes) -> None:
        raise NotImplementedError

    def on_end(self, stream: int) -> None:
        """Handle the end of a stream on the side of the peer."""


class Client(Connection):
    """Calls, as the kubelet makes them."""

    def __init__(self) -> None:
        super().__init__(client=True)
        self._next = 1
        self._table: list[tuple[str, str]] = []
        self._listeners: dict[int, Callable[[bytes | None], None]] = {}

    def call(self, path: str, body: bytes, listener: Callable[[bytes | None], None]) -> None:
        """Begin a call. The listener gets each message as it is complete, and None at the end."""
        stream, self._next = self._next, self._next + 2
        self._listeners[stream] = listener
        self.transport.write(
            frame(HEADERS, END_HEADERS, stream, self._headers(path)) + frame(DATA, END_STREAM, stream, message(body))
        )

    async def ask(self, path: str, body: bytes) -> bytes:
        """One answer.

        Raises:
            CallFailed: there was none.
        """
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

        def listen(body: bytes | None) -> None:
            if answer.done():
                return
            if body is None:
                answer.set_exception(CallFailed(path))
            else:
                answer.set_result(body)

        self.call(path, body, listen)
        return await answer

    def on_message(self, stream: int, body: bytes) -> None:
        self._listeners[stream](body)

    def on_end(self, stream: int) -> None:
        listener = self._listeners.pop(stream, None)
        if listener is not None:
            listener(None)

    def connection_lost(self, exc: BaseException | None) -> None:
        super().connection_lost(exc)
        for stream in list(self._listeners):
            self.on_end(stream)

    def _headers(self, path: str) -> bytes:
        fields = (
            (":path", path),
            (":authority", "localhost"),
            ("content-type", "application/grpc"),
            ("user-agent", "grpc-go/1.72.1"),
            ("te", "trailers"),
        )
        return b"\x83\x86" + b"".join(self._field(*field) for field in fields)

    def _field(self, name: str, value: str) -> bytes:
        """Encode a header: by its number if it was sent before, else in full with incremental indexing."""
        if (name, value) in self._table:
            return bytes((0x80 | 62 + self._table.index((name, value)),))
        self._table.insert(0, (name, value))
        return b"\x40" + bytes((len(name),)) + name.encode() + bytes((len(value),)) + value.encode()


class Server(Connection):
    """Answers every call with an empty message, once `answer(body)` has returned."""

    def __init__(self, answer: Callable[[bytes, Callable[[], None]], None]) -> None:
        super().__init__(client=False)
        self._answer = answer

    def on_message(self, stream: int, body: bytes) -> None:
        def done() -> None:
            if not self.transport.is_closing():
                self.transport.write(
                    frame(HEADERS, END_HEADERS, stream, _ANSWER)
                    + frame(DATA, 0, stream, message(b""))
                    + frame(HEADERS, END_HEADERS | END_STREAM, stream, _TRAILERS)
                )

        self._answer(body, done)
