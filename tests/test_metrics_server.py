"""Metrics over HTTP: the page of metrics and no other."""

import asyncio
import os
import socket

import pytest

from agent.control import metrics_server
from tests import sockets
from tests.sockets import until

BODY = "device_agent_kubelet_up 1\n"


async def get_body():
    return BODY


def listens(path):
    with socket.socket(socket.AF_UNIX) as client:
        return client.connect_ex(path) == 0


@pytest.fixture
async def served(tmp_path):
    path = str(tmp_path / "metrics.sock")
    task = asyncio.create_task(metrics_server.serve(f"unix:{path}", get_body))
    await until(lambda: listens(path))
    yield path
    task.cancel()
    await asyncio.wait([task])
    await until(lambda: not os.path.exists(path))


async def send_request(path, data, *, close=False):
    return (await sockets.send_request(path, data, close=close)).decode()


@pytest.mark.parametrize(
    ("request_", "status", "body"),
    [
        (b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", "200 OK", BODY),
        (b"GET /metrics?x=1 HTTP/1.0\r\n\r\n", "200 OK", BODY),
        (b"HEAD /metrics HTTP/1.1\r\n\r\n", "200 OK", ""),
        (b"GET / HTTP/1.1\r\n\r\n", "404 Not Found", "the only path is /metrics\n"),
        (b"GET /metrics/../x HTTP/1.1\r\n\r\n", "404 Not Found", "the only path is /metrics\n"),
        (b"POST /metrics HTTP/1.1\r\n\r\n", "405 Method Not Allowed", "use GET or HEAD\n"),
        (b"\x00\xff\r\n\r\n", "400 Bad Request", "the request is not HTTP/1\n"),
        (b"PRI * HTTP/2.0\r\n\r\n", "400 Bad Request", "the request is not HTTP/1\n"),
    ],
)
async def test_an_answer(served, request_, status, body):
    head, _, said = (await send_request(served, request_)).partition("\r\n\r\n")
    assert head.startswith(f"HTTP/1.1 {status}\r\n")
    assert said == body
    assert "Connection: close" in head


async def test_a_socket_of_somebody_else_is_left_where_it_is(tmp_path):
    """Who is ended after another has taken its place takes nothing away."""
    path = str(tmp_path / "metrics.sock")
    first = asyncio.create_task(metrics_server.serve(f"unix:{path}", get_body))
    await until(lambda: listens(path))
    os.unlink(path)
    second = asyncio.create_task(metrics_server.serve(f"unix:{path}", get_body))
    await until(lambda: listens(path))
    for task, left in ((first, True), (second, False)):
        task.cancel()
        await asyncio.wait([task])
        assert os.path.exists(path) == left  # noqa: ASYNC240  a file system in memory


async def test_who_says_too_much_or_goes_away_gets_nothing_and_costs_nothing(served):
    assert await send_request(served, b"GET /" + b"x" * 100_000) == ""
    assert await send_request(served, b"GET /metrics", close=True) == ""
    assert (await send_request(served, b"GET /metrics HTTP/1.1\r\n\r\n")).endswith(BODY)


async def test_clients_that_hang_take_nothing_from_others(served):
    hanging = [await asyncio.open_unix_connection(served) for _ in range(metrics_server.MAX_CLIENTS - 1)]
    assert (await send_request(served, b"GET /metrics HTTP/1.1\r\n\r\n")).endswith(BODY)
    for _, writer in hanging:
        writer.close()


@pytest.fixture
async def long(tmp_path):
    """Where an answer is longer than what a socket holds; its path and its task."""
    path = str(tmp_path / "long.sock")
    task = asyncio.create_task(metrics_server.serve(f"unix:{path}", lambda: asyncio.sleep(0, "x" * 8_000_000)))
    await until(lambda: listens(path))
    yield path, task
    task.cancel()


async def takes_nothing(path):
    """A client that asks, and takes the first byte of its answer alone."""
    reader, writer = await asyncio.open_unix_connection(path, limit=1)
    writer.write(b"GET /metrics HTTP/1.1\r\n\r\n")
    assert await reader.readexactly(1) == b"H"
    return writer


async def test_who_does_not_take_its_answer_does_not_hold_up_the_end(long):
    path, task = long
    writer = await takes_nothing(path)
    task.cancel()
    assert (await asyncio.wait([task], timeout=30))[0] == {task}
    writer.close()


async def test_who_does_not_take_its_answer_makes_room(long, monkeypatch):
    path, _ = long
    waiting = [await takes_nothing(path) for _ in range(metrics_server.MAX_CLIENTS)]
    monkeypatch.setattr(metrics_server, "REQUEST_SECONDS", 0.1)
    async with asyncio.timeout(30):
        while not (await send_request(path, b"GET / HTTP/1.1\r\n\r\n")).startswith("HTTP/1.1 404"):
            pass
    for writer in waiting:
        writer.close()


async def test_a_defect_in_what_is_told_ends_nothing(tmp_path, caplog):
    path = str(tmp_path / "metrics.sock")
    told = iter([ValueError("no such thing"), BODY])

    async def once_wrong():
        if isinstance(now := next(told), Exception):
            raise now
        return now

    task = asyncio.create_task(metrics_server.serve(f"unix:{path}", once_wrong))
    await until(lambda: listens(path))
    assert (await send_request(path, b"GET /metrics HTTP/1.1\r\n\r\n")).startswith("HTTP/1.1 500 ")
    assert "no such thing" in caplog.text
    assert (await send_request(path, b"GET /metrics HTTP/1.1\r\n\r\n")).endswith(BODY)
    task.cancel()
    await asyncio.wait([task])


async def test_a_port_on_the_loopback(caplog):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
        await metrics_server.serve(f"127.0.0.1:{port}", get_body)  # somebody has it
        assert "cannot be used" in caplog.text
    task = asyncio.create_task(metrics_server.serve(f"127.0.0.1:{port}", get_body))

    async def open_():
        while True:
            try:
                return await asyncio.open_connection("127.0.0.1", port)
            except ConnectionRefusedError:
                await asyncio.sleep(0.01)

    async with asyncio.timeout(30):
        reader, writer = await open_()
        writer.write(b"GET /metrics HTTP/1.1\r\n\r\n")
        assert (await reader.read()).decode().endswith(BODY)
    writer.close()
    task.cancel()
    await asyncio.wait([task])


async def test_a_socket_that_nobody_answers_is_replaced_and_a_file_is_not(tmp_path, caplog):
    path = tmp_path / "m.sock"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    metrics_server._bind(f"unix:{path}").close()
    path.unlink()
    path.write_text("a file")
    await metrics_server.serve(f"unix:{path}", get_body)
    assert path.read_text() == "a file"
    assert "cannot be used" in caplog.text


async def test_nothing_asked_for_is_nothing_done():
    await metrics_server.serve("", get_body)
