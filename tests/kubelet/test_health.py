"""The gRPC health protocol, as a client of real servers, of odd ones, and of none."""

import asyncio
import logging
import socket
from contextlib import aclosing, asynccontextmanager, suppress

import pytest
import uvloop
from grpclib.const import Cardinality, Handler, Status
from grpclib.exceptions import GRPCError
from grpclib.server import Server

from agent.core.entry.query import QueryResult, QueryStatus, SocketQuery
from agent.kubelet import socket_query
from agent.kubelet.grpc_channel import RawCodec
from agent.kubelet.socket_query import query_service

WELL = QueryResult(QueryStatus.HEALTHY)
ILL = QueryResult(QueryStatus.UNHEALTHY, "the service reports NOT_SERVING")
SERVING, NOT_SERVING = b"\x08\x01", b"\x08\x02"


def pytest_asyncio_loop_factories():
    return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


class Health:
    """A server that says what is put into it, when it is asked of what it is to be asked of."""

    def __init__(self, *, watch=True, check=True, asked=b""):
        self.asked = asked
        self.says = SERVING
        self.changed = asyncio.Event()
        self.calls = []
        self.end = self.transport = None
        self._watch, self._check = watch, check

    async def watch(self, stream):
        self.calls.append("watch")
        self.transport = stream._stream._transport
        assert await stream.recv_message() == self.asked
        while True:
            self.changed.clear()
            if self.end:
                raise self.end
            await stream.send_message(self.says)
            await self.changed.wait()

    async def check(self, stream):
        self.calls.append("check")
        assert await stream.recv_message() == self.asked
        if self.end:
            raise self.end
        await stream.send_message(self.says)

    def say(self, says, end=None):
        self.says, self.end = says, end
        self.changed.set()

    def __mapping__(self):
        kinds = (
            (self._watch, socket_query._WATCH, self.watch, Cardinality.UNARY_STREAM),
            (self._check, socket_query._CHECK, self.check, Cardinality.UNARY_UNARY),
        )
        return {path: Handler(call, kind, bytes, bytes) for there, path, call, kind in kinds if there}

    @asynccontextmanager
    async def serve(self, path):
        server = Server([self], codec=RawCodec())
        await server.start(path=path)
        try:
            yield
        finally:
            server.close()


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "s")


async def once(path, seconds=20.0):
    async with aclosing(query_service(SocketQuery(path, seconds, 3600.0))) as answers:
        return await anext(answers)


STATUSES = [
    (SERVING, WELL),
    (NOT_SERVING, ILL),
    (b"", QueryResult(QueryStatus.UNKNOWN, "the service reports UNKNOWN")),
    (b"\x08\x00", QueryResult(QueryStatus.UNKNOWN, "the service reports UNKNOWN")),
    (b"\x08\x03", QueryResult(QueryStatus.UNKNOWN, "the service reports SERVICE_UNKNOWN")),
    *(
        (junk, QueryResult(QueryStatus.UNKNOWN, "the answer is not a health status"))
        for junk in (b"\x08\x07", b"{}", b"\x08")
    ),
]


@pytest.mark.parametrize(("said", "answer"), STATUSES)
@pytest.mark.parametrize("watch", [True, False])
async def test_what_it_says(path, said, answer, watch):
    server = Health(watch=watch)
    server.say(said)
    async with server.serve(path):
        assert await once(path) == answer
    assert server.calls == ["watch" if watch else "check"]


@pytest.mark.parametrize(
    ("of", "asked"), [("npu0", b"\x0a\x04npu0"), ("é" * 100, b"\x0a\xc8\x01" + "é".encode() * 100)]
)
@pytest.mark.parametrize("watch", [True, False])
async def test_a_service_by_name(path, of, asked, watch):
    async with (
        Health(watch=watch, asked=asked).serve(path),
        aclosing(query_service(SocketQuery(path, 20.0, 60.0, of))) as answers,
    ):
        assert await anext(answers) == WELL


async def test_what_it_says_instead_is_known_at_once(path):
    server = Health()
    async with server.serve(path), aclosing(query_service(SocketQuery(path, 20.0, 3600.0))) as answers:
        assert await anext(answers) == WELL
        server.say(NOT_SERVING)
        assert await anext(answers) == ILL
        server.say(b"", GRPCError(Status.UNAVAILABLE, "shutting\ndown"))
        (last,) = [answer async for answer in answers]
        assert last.status is QueryStatus.UNKNOWN
        assert last.reason.startswith(f"{path}: UNAVAILABLE: shutting")
        assert "\n" not in last.reason


async def test_a_watch_ends_when_it_is_time_to_ask_again(path):
    server = Health()
    async with server.serve(path):
        assert [answer async for answer in query_service(SocketQuery(path, 20.0, 0.05))] == [WELL]
        assert [answer async for answer in query_service(SocketQuery(path, 20.0, 0.05))] == [WELL]


async def test_a_check_is_asked_once(path):
    server = Health(watch=False)
    async with server.serve(path):
        assert [answer async for answer in query_service(SocketQuery(path, 20.0, 3600.0))] == [WELL]


async def test_a_server_that_goes_ends_the_watch(path):
    server = Health()
    async with server.serve(path), aclosing(query_service(SocketQuery(path, 20.0, 3600.0))) as answers:
        assert await anext(answers) == WELL
        server.transport.abort()
        (last,) = [answer async for answer in answers]
        assert last.status is QueryStatus.UNKNOWN


@pytest.mark.parametrize("torn", [b"\0\0\0", b"\0\0\0\0\x02\x08"])
@pytest.mark.parametrize("watch", [True, False])
async def test_an_answer_that_is_cut_short_is_none(path, torn, watch):
    class Torn(Health):
        async def watch(self, stream):
            assert await stream.recv_message() == b""
            await stream.send_initial_metadata()
            await stream._stream.send_data(torn, end_stream=True)

        check = watch

    async with Torn(watch=watch).serve(path):
        answer = await once(path)
    assert answer == QueryResult(
        QueryStatus.UNKNOWN, f"{path}: the connection was lost, or the service does not use gRPC"
    )


async def test_who_floods_leaves_others_their_turn(path, monkeypatch):
    class Flood(Health):
        async def watch(self, stream):
            assert await stream.recv_message() == b""
            for _ in range(100):
                await stream.send_message(SERVING)
            await self.changed.wait()

    turns, turning = 0, True

    def turn():
        nonlocal turns
        turns += 1
        if turning:
            asyncio.get_running_loop().call_soon(turn)

    monkeypatch.setattr(socket_query, "_PAUSE_SECONDS", 0)
    async with Flood().serve(path), aclosing(query_service(SocketQuery(path, 20.0, 3600.0))) as answers:
        turn()
        seen = [(await anext(answers), turns)[1] for _ in range(100)]
        turning = False
    assert len(set(seen)) == len(seen)


@pytest.mark.parametrize("watch", [True, False])
async def test_an_answer_without_end_is_not_taken(path, watch):
    sent = 0

    class Endless(Health):
        async def watch(self, stream):
            nonlocal sent
            assert await stream.recv_message() == b""
            await stream.send_initial_metadata()
            await stream._stream.send_data(b"\0\xff\xff\xff\xff")
            while True:
                await stream._stream.send_data(bytes(65536))
                sent += 65536

        check = watch

    async with Endless(watch=watch).serve(path):
        answer = await once(path)
    assert answer == QueryResult(QueryStatus.UNKNOWN, f"{path}: the answer is too long")
    assert sent <= 2 * 256 * 1024


async def test_a_peer_that_says_nothing_of_use_is_left(path):
    async def peer(reader, writer):
        junk = b"\0\0\x08\x06\0\0\0\0\0" + bytes(8)  # a ping
        try:
            writer.write(b"\0\0\0\x04\0\0\0\0\0")
            while not writer.is_closing():
                writer.write(junk * 1000)
                await writer.drain()
        except OSError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_unix_server(peer, path)
    async with server:
        answer = await once(path)
    assert answer == QueryResult(QueryStatus.UNKNOWN, f"{path}: the answer is too long")


async def test_a_peer_that_breaks_the_protocol_is_left_in_silence(path, caplog):
    gone = asyncio.Event()

    async def peer(reader, writer):
        writer.write(b"\0\0\0\x04\0\0\0\0\0" + b"\0\0\0\x20\0\0\0\0\0")  # a frame of no kind that there is
        with suppress(OSError):
            await reader.read()
        writer.close()
        gone.set()

    server = await asyncio.start_unix_server(peer, path)
    async with server:
        answer = await once(path)
        await gone.wait()
    assert answer == QueryResult(
        QueryStatus.UNKNOWN, f"{path}: the connection was lost, or the service does not use gRPC"
    )
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


async def test_who_says_the_same_for_ever_is_heard_for_ever(path, monkeypatch):
    monkeypatch.setattr(socket_query, "_LIMIT", 160_000)  # a little more than a window of answers, with their frames
    monkeypatch.setattr(socket_query, "_PAUSE_SECONDS", 0)

    class Flood(Health):
        async def watch(self, stream):
            assert await stream.recv_message() == b""
            while True:
                await stream.send_message(SERVING)

    async with Flood().serve(path), aclosing(query_service(SocketQuery(path, 20.0, 3600.0))) as answers:
        for _ in range(11_000):  # more than the limit
            assert await anext(answers) == WELL


async def test_a_server_without_the_service(path):
    async with Health(watch=False, check=False).serve(path):
        answer = await once(path)
    assert answer.status is QueryStatus.UNKNOWN
    assert answer.reason.startswith(f"{path}: ")


async def test_a_server_that_says_that_it_has_no_watch(path):
    server = Health()
    server.end = GRPCError(Status.UNIMPLEMENTED, "no watch")
    async with server.serve(path):
        task = asyncio.create_task(once(path))
        answer = await task
    assert server.calls == ["watch", "check"]
    assert answer == QueryResult(QueryStatus.UNKNOWN, f"{path}: UNIMPLEMENTED: no watch")


@pytest.mark.parametrize("text", [b"hello\n", b"", b"\x00" * 100, b"{}\n"])
async def test_what_is_no_server(path, text):
    async def answer(reader, writer):
        writer.write(text)
        await writer.drain()
        writer.close()

    server = await asyncio.start_unix_server(answer, path)
    async with server:
        found = await once(path)
    assert found.status is QueryStatus.UNKNOWN
    assert found.reason.startswith(f"{path}: ")


async def test_nobody_listens(path):
    assert await once(path) == QueryResult(QueryStatus.UNKNOWN, f"{path}: No such file or directory")
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(path)
    assert await once(path) == QueryResult(QueryStatus.UNKNOWN, f"{path}: Connection refused")
    long = f"{path}/{'x' * 200}"
    assert (await once(long)).status is QueryStatus.UNKNOWN


async def test_one_that_does_not_answer(path):
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(path)
        silent.listen()
        assert await once(path, 0.05) == QueryResult(
            QueryStatus.UNKNOWN, f"{path}: no answer within 0.05 s", timed_out=True
        )
