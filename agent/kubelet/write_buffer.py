"""A write buffer: the parts of an answer are sent in one system call.

grpclib writes the headers, the message and the trailers of an answer one by one, and uvloop sends each at once. These
would be three system calls, and the kubelet would wake three times.
"""

from __future__ import annotations

import asyncio
from typing import Any

SEND_BYTES = 65536  # bytes that are sent at once, so the limit of the transport still slows down the writer


class BufferedTransport:
    """A transport for grpclib. All writes in one turn of the event loop are sent together at its end."""

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
