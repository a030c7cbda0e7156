"""Data of one turn of the event loop is sent in one piece, in order and complete."""

from __future__ import annotations

import asyncio

import pytest

from agent.kubelet.connection import SEND_BYTES, BufferedTransport


class Wire:
    """A transport that notes what is done to it."""

    def __init__(self) -> None:
        self.done: list[object] = []
        self.closing = False

    def write(self, data: bytes) -> None:
        if self.closing:
            raise RuntimeError("closed")
        self.done.append(data)

    def close(self) -> None:
        self.closing = True
        self.done.append("closed")

    def is_closing(self) -> bool:
        return self.closing

    def get_extra_info(self, name, default=None):
        return {"peername": "/there"}.get(name, default)


async def test_writes_of_one_turn_are_one():
    wire = Wire()
    gathering = BufferedTransport(wire)
    for part in (b"headers", b"", b"message", b"trailers"):
        gathering.write(part)
    assert wire.done == []
    await asyncio.sleep(0)
    assert wire.done == [b"headersmessagetrailers"]
    gathering.write(b"more")
    await asyncio.sleep(0)
    assert wire.done == [b"headersmessagetrailers", b"more"]


async def test_much_does_not_wait():
    wire = Wire()
    gathering = BufferedTransport(wire)
    gathering.write(b"a")
    gathering.write(b"b" * SEND_BYTES)
    assert wire.done == [b"a" + b"b" * SEND_BYTES]
    gathering.write(b"c")
    await asyncio.sleep(0)
    assert wire.done[1:] == [b"c"]


async def test_a_close_sends_what_was_written_before_it():
    wire = Wire()
    gathering = BufferedTransport(wire)
    gathering.write(b"last words")
    gathering.close()
    assert wire.done == [b"last words", "closed"]
    assert gathering.is_closing()
    with pytest.raises(RuntimeError, match="closed"):
        gathering.write(b"too late")


async def test_what_was_written_before_the_peer_went_is_dropped_in_silence():
    wire = Wire()
    gathering = BufferedTransport(wire)
    gathering.write(b"to nobody")
    wire.closing = True
    await asyncio.sleep(0)
    assert wire.done == []


async def test_what_else_is_asked_of_it_the_transport_answers():
    assert BufferedTransport(Wire()).get_extra_info("peername") == "/there"
    assert BufferedTransport(Wire()).get_extra_info("socket", 7) == 7
