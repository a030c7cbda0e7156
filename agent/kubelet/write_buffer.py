"""Writing: what an answer is made of goes out in one piece.

grpclib writes the headers, the message and the trailers of an answer one by one, and uvloop sends each at once: three
system calls, and a kubelet that is woken three times.
"""

from __future__ import annotations

import asyncio
from typing import Any

SEND_BYTES = (
    65536  # bytes that do not wait for more: what is over the transport's own limit has to be felt by who writes
)


class BufferedTransport:
    """A transport for grpclib: all that is written in one turn of the event loop is sent when that is over."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._loop = asyncio.get_running_loop()
        self._parts: list[bytes] = []
        self._size = 0

    def write(self, data: bytes) -> None:
        """See `asyncio.WriteTransport`."""
        if self._transport.is_closing():
            self._transport.write(data)  # which says so, as it likes
            return
        if data and not self._parts:
            self._loop.call_soon(self._send)
        if data:
            self._parts.append(data)
            self._size += len(data)
        if self._size >= SEND_BYTES:
            self._send()

    def close(self) -> None:
        """Close, when what was written has gone out."""
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
