"""AMD's metrics exporter, as a client of one that says what it is told to, of junk, and of none."""

import asyncio
import os
import socket
import threading
from contextlib import aclosing, asynccontextmanager, suppress

import pytest
import uvloop
from grpclib.const import Cardinality, Handler, Status
from grpclib.exceptions import GRPCError
from grpclib.server import Server
from hypothesis import example, given
from hypothesis import strategies as st

from agent.core.entry.query import QueryResult, QueryStatus, ServiceProtocol, SocketQuery
from agent.kubelet.grpc_channel import RawCodec
from agent.kubelet.messages.metricssvc import GpuState, GpuStateResponse
from agent.kubelet.socket_query import _parse_results, query_service

A, B = "0000:3b:00.0", "0000:5e:00.0"
ILL = QueryResult(QueryStatus.UNHEALTHY, "the exporter reports unhealthy")


def pytest_asyncio_loop_factories():
    return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


@asynccontextmanager
async def exporter(path, says):
    async def answer(stream):
        assert await stream.recv_message() == b""
        if isinstance(says, GRPCError):
            raise says
        await stream.send_message(says)

    class Exporter:
        def __mapping__(self):
            return {"/metricssvc.MetricsService/List": Handler(answer, Cardinality.UNARY_UNARY, bytes, bytes)}

    server = Server([Exporter()], codec=RawCodec())
    await server.start(path=path)
    try:
        yield
    finally:
        server.close()


def encode_response(*said):
    return bytes(GpuStateResponse([GpuState(uuid=f"UUID-{of}", health=says, device=of) for of, says in said]))


def left_behind(path):
    """Put a socket there to which nobody listens, whatever was there."""
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(f"{path}.left")
    os.replace(f"{path}.left", path)


async def once(path, of=A):
    async with aclosing(query_service(SocketQuery(path, 20.0, 3600.0, of, ServiceProtocol.AMD_METRICS))) as answers:
        said = [answer async for answer in answers]
    assert len(said) == 1  # it is asked again in its time, and not watched
    return said[0]


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "s")


@pytest.mark.parametrize(
    ("said", "of", "answer"),
    [
        ([(A, "healthy"), (B, "unhealthy")], A, QueryResult(QueryStatus.HEALTHY)),
        ([(A, "healthy"), (B, "unhealthy")], B, ILL),
        ([("0000:3B:00.0", "Healthy")], A, QueryResult(QueryStatus.HEALTHY)),
        ([(A, "unhealthy")], f"uuid-{A}", ILL),
        ([(A, "healthy"), (A, "unhealthy"), (A, "healthy")], A, ILL),  # a card in partitions
        ([(A, "unknown")], A, QueryResult(QueryStatus.UNKNOWN, "the exporter reports unknown")),
        ([(A, "")], A, QueryResult(QueryStatus.UNKNOWN, "the exporter reports ")),
        ([(A, "on\nfire")], A, QueryResult(QueryStatus.UNKNOWN, "the exporter reports on\\nfire")),
        ([(B, "healthy")], A, QueryResult(QueryStatus.UNKNOWN, f"the exporter does not list {A}")),
        ([], A, QueryResult(QueryStatus.UNKNOWN, f"the exporter does not list {A}")),
    ],
)
async def test_what_it_says(path, said, of, answer):
    async with exporter(path, encode_response(*said)):
        assert await once(path, of) == answer


async def test_where_none_is_there_is_nothing_to_ask(path):
    assert await once(path) == QueryResult(QueryStatus.NOT_APPLICABLE, f"{path}: No such file or directory")


async def test_one_that_ended_and_left_its_socket_says_nothing(path):
    left_behind(path)
    assert await once(path) == QueryResult(QueryStatus.UNKNOWN, f"{path}: Connection refused")


@pytest.mark.parametrize("junk", [b"\xff\xff\xff", b"\x0a\x7f", b"{}"])
async def test_junk_says_nothing(path, junk):
    async with exporter(path, junk):
        assert (await once(path)).status is QueryStatus.UNKNOWN


async def test_an_exporter_of_another_kind_says_nothing(path):
    async with exporter(path, GRPCError(Status.UNIMPLEMENTED, "what?")):
        assert await once(path) == QueryResult(QueryStatus.UNKNOWN, f"{path}: UNIMPLEMENTED: what?")


async def test_one_that_says_too_much_is_left(path):
    async with exporter(path, bytes(300 * 1024)):
        assert await once(path) == QueryResult(QueryStatus.UNKNOWN, f"{path}: the answer is too long")


async def test_an_answer_is_read_beside_the_event_loop(path, monkeypatch):
    """One of 250 KiB that is made of nothing but parts takes seconds."""
    threads = []
    parse = GpuStateResponse.parse
    monkeypatch.setattr(
        GpuStateResponse, "parse", lambda *said: (threads.append(threading.get_ident()), parse(*said))[1]
    )
    async with exporter(path, encode_response((A, "healthy"))):
        assert await once(path) == QueryResult(QueryStatus.HEALTHY)
    assert len(threads) == 1
    assert threads != [threading.get_ident()]


@given(st.binary(max_size=200))
@example(b"\x0a\x01\x13")  # its UUID is a group
@example(b"\x0a\x10\x18\x05\x2a\x0c" + A.encode())  # its health is a number
@example(b"\x08\x05")  # a GPU is a number
def test_no_bytes_break_it(message):
    with suppress(ValueError):
        assert all(isinstance(answer, QueryResult) for answer in _parse_results(message, A))
