"""Asking a running agent over its control socket, and having its configuration follow the files."""

import asyncio
import json
import os
import signal
import socket
import stat
import subprocess
import sys
import tempfile
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from agent.cli.agent_client import AgentUnreachable, send_request
from agent.control import control_socket
from tests import sockets
from tests.agent.process import run_agent
from tests.agent.rig import BAR, FOO, entry
from tests.cli.conftest import device_agent
from tests.sockets import until

BAZ = "example.com/baz"


@pytest.fixture
async def node(rig):
    rig.plug("foo0", "bar0", "baz0")
    rig.serve(FOO, BAR)
    return rig


async def command(node, *words):
    return await asyncio.to_thread(device_agent, *words, "--config", str(node.etc))


async def wait_for_socket(node, process):
    await node.until(lambda: process.said("READY"))
    await node.until(node.control.exists)


async def test_reload_applies_the_difference_and_says_it(node):
    await node.kubelet.start()
    async with run_agent(node) as process:
        await wait_for_socket(node, process)
        await node.streaming(FOO, BAR)
        node.serve(FOO, BAZ)
        rehearsed = await command(node, "reload", "--dry-run")
        assert (rehearsed.returncode, rehearsed.stderr) == (0, "")
        assert "would be applied; nothing changed" in rehearsed.stdout
        assert node.kubelet.streams(BAR) == 1
        done = await command(node, "reload")
        assert done.returncode == 0, done.stderr
        how = {line.split()[0]: line.split()[1:3] for line in done.stdout.splitlines()}
        assert how["unchanged"] == ["1", FOO]
        assert how["added"] == ["1", BAZ]
        assert how["removed"] == ["1", BAR]
        await node.streaming(FOO, BAZ)
        assert node.kubelet.events.count("stream_ended") <= 1
        again = await command(node, "reload", "-o", "json")
        said = json.loads(again.stdout)
        assert said["before"] == said["after"]
        assert said["resources"] == {"unchanged": [FOO, BAZ], "changed": [], "added": [], "removed": []}
        assert said["changes"] == {}
        node.serve(entry(FOO, "replicas = 2"), BAZ)
        changed = (await command(node, "reload")).stdout.splitlines()
        assert changed[2] == f"{'':16}{FOO}: replicas"
        process.send(signal.SIGTERM)
        assert await process.ended() == 0
    assert not node.control.exists()
    gone = await command(node, "reload")
    assert (gone.returncode, gone.stdout) == (3, "")
    assert "no agent is running" in gone.stderr


async def test_reload_with_an_error_changes_nothing_and_shows_it(node):
    await node.kubelet.start()
    async with run_agent(node) as process:
        await wait_for_socket(node, process)
        await node.streaming(FOO, BAR)
        node.serve(entry(FOO, "replicas = 0"))
        for words in (("--dry-run",), ()):
            done = await command(node, "reload", *words)
            assert done.returncode == 1
            assert "10.toml:4:12: error[type]" in done.stdout
            assert "stays active, all resources unchanged" in done.stdout
        assert node.kubelet.streams(BAR) == 1
        process.send(signal.SIGTERM)
        assert await process.ended() == 0


async def test_many_ask_at_once(node):
    async with run_agent(node) as process:
        await wait_for_socket(node, process)
        answers = await asyncio.gather(
            *(
                asyncio.to_thread(control_socket.query_agent, str(node.control), {"do": "reload"}, 60.0)
                for _ in range(8)
            )
        )
        assert {answer["refused"] for answer in answers} == {None}
        process.send(signal.SIGTERM)
        assert await process.ended() == 0


async def test_the_files_are_followed_if_that_is_asked_for(node):
    """However they are put there: written in place, renamed over, a link that is swapped."""
    node.settings("[reload]\nwatch = true\n")
    await node.kubelet.start()
    async with run_agent(node) as process:
        await wait_for_socket(node, process)
        await node.streaming(FOO, BAR)
        file = node.etc / "resources.d/10.toml"
        file.write_text(f"{file.read_text()}\n{entry(BAZ)}")
        await node.streaming(BAZ)
        (node.etc / "new").write_text(file.read_text().replace(BAZ, "example.com/qux"))
        os.rename(node.etc / "new", file)
        await node.streaming("example.com/qux")
        os.rename(node.etc / "resources.d", node.etc / "v1")
        (node.etc / "v2").mkdir()
        (node.etc / "v2/10.toml").write_text(entry(FOO) + entry("example.com/swapped", nodes="/dev/baz0"))
        os.symlink("v2", node.etc / "resources.d")
        await node.streaming(FOO, "example.com/swapped")
        node.serve(entry(FOO, "replicas = 0"))
        await node.until(lambda: "1 error" in process.log)
        assert node.kubelet.streams(FOO) == 1
        node.serve(FOO)
        process.send(signal.SIGTERM)
        assert await process.ended() == 0
    assert "Traceback" not in process.log


async def test_a_touched_file_is_no_news(node):
    node.settings("[reload]\nwatch = true\n")
    await node.kubelet.start()
    async with run_agent(node) as process:
        await wait_for_socket(node, process)
        await node.streaming(FOO, BAR)
        os.utime(node.etc / "resources.d/10.toml")
        (node.etc / "resources.d/.10.toml.swp").write_text("x")
        node.serve(FOO, BAR, BAZ)
        await node.streaming(BAZ)
        assert len(process.said("RELOADING")) == 1
        process.send(signal.SIGTERM)
        assert await process.ended() == 0


@pytest.fixture
async def echo_socket(tmp_path):
    """Return the path of a control socket that echoes."""
    path = str(tmp_path / "run/control.sock")

    async def echo(request):
        return {"said": request}

    async def slow(request):
        await asyncio.Event().wait()

    task = asyncio.create_task(control_socket.serve(path, {"echo": echo, "slow": slow}))
    await until(lambda: exists(path))
    yield path
    task.cancel()
    await asyncio.wait([task])
    assert not exists(path)


def exists(path):
    return Path(path).exists()


async def asked(path, data, *, close=False):
    """Return the parsed answer; None without an answer."""
    answer = await sockets.send_request(path, data, close=close)
    return json.loads(answer) if answer else None


@asynccontextmanager
async def fill_socket(path):
    """Open as many connections as a socket accepts. Close them at the end."""
    clients = [await asyncio.open_unix_connection(path) for _ in range(control_socket.MAX_CLIENTS)]
    yield [writer for _, writer in clients]
    for _, writer in clients:
        writer.close()
        await writer.wait_closed()


@asynccontextmanager
async def busy(path, request=b'{"do": "slow"}\n'):
    """A socket that is filled with clients that have all asked, as has been seen."""
    async with fill_socket(path) as writers:
        for writer in writers:
            writer.write(request)
        while await asked(path, b'{"do": "echo"}\n') is not None:  # until all have been read
            pass
        yield


async def test_a_request_is_one_line_of_json(echo_socket):
    assert await asked(echo_socket, b'{"do": "echo", "x": 1}\n') == {"said": {"do": "echo", "x": 1}}
    assert await asked(echo_socket, b'{"do": "echo"}', close=True) == {"said": {"do": "echo"}}
    assert await asked(echo_socket, b"{\n") == {"error": "the request is not valid JSON"}
    assert await asked(echo_socket, b"[1]\n") == {"error": "the request is not a JSON object"}
    assert await asked(echo_socket, b"[" * 60000 + b"\n") == {"error": "the request is not valid JSON"}
    assert await asked(echo_socket, b"", close=True) == {"error": "the request is not valid JSON"}
    assert await asked(echo_socket, b'{"do": "\\u001b"}\n') == {
        "error": "unknown command \\x1b. The commands are echo, slow"
    }
    assert await asked(echo_socket, b"x" * 100_000 + b"\n") is None


async def test_the_socket_is_its_owners_alone(echo_socket):
    assert stat.S_IMODE(os.stat(echo_socket).st_mode) == 0o600
    assert stat.S_IMODE(os.stat(os.path.dirname(echo_socket)).st_mode) == 0o700


async def test_clients_that_hang_take_nothing_from_others(echo_socket):
    hanging = [await asyncio.open_unix_connection(echo_socket) for _ in range(2 * control_socket.MAX_CLIENTS)]
    assert await hanging[0][0].read() == b""  # the first to come was the first to go
    assert await asked(echo_socket, b'{"do": "echo"}\n') == {"said": {"do": "echo"}}
    for _, writer in hanging:
        writer.close()
        await writer.wait_closed()


async def test_who_has_asked_is_not_sent_away(echo_socket):
    async with fill_socket(echo_socket) as (_, *writers):
        for writer in writers:
            writer.write(b'{"do": "slow"}\n')
        assert await asked(echo_socket, b'{"do": "echo"}\n') == {"said": {"do": "echo"}}  # in place of the silent one
        _, last = await asyncio.open_unix_connection(echo_socket)
        last.write(b'{"do": "slow"}\n')
        while await asked(echo_socket, b'{"do": "echo"}\n') is not None:  # until that has been read
            pass
        last.close()
        await last.wait_closed()


async def test_who_finds_too_many_before_it_is_told_so(echo_socket):
    async with busy(echo_socket):
        answer = await asyncio.to_thread(send_request, echo_socket, {"do": "echo"}, 60.0)
    assert answer == AgentUnreachable("the agent is busy", "16 others ask it already; ask again", 1)


async def test_who_waits_for_a_change_and_left_makes_room(echo_socket):
    async with busy(echo_socket, b'{"do": "slow", "unlike": "x"}\n'):
        pass
    async with asyncio.timeout(20):
        while await asked(echo_socket, b'{"do": "echo"}\n') is None:  # until it is seen that they are gone
            pass


async def test_what_somebody_wants_done_is_done_though_they_left(tmp_path):
    path = str(tmp_path / "run/control.sock")
    begun, go, done = 0, asyncio.Event(), []

    async def drain(request):
        nonlocal begun
        begun += 1
        await go.wait()
        done.append(request["device"])
        return {}

    task = asyncio.create_task(control_socket.serve(path, {"drain": drain}))
    await until(lambda: exists(path))
    async with fill_socket(path) as writers:
        for number, writer in enumerate(writers):
            writer.write(f'{{"do": "drain", "device": {number}}}\n'.encode())
        await until(lambda: begun == control_socket.MAX_CLIENTS)
    for _ in range(control_socket.MAX_CLIENTS):
        assert await asked(path, b'{"do": "drain", "device": -1}\n') is None
    go.set()
    await until(lambda: sorted(done) == list(range(control_socket.MAX_CLIENTS)))
    task.cancel()
    await asyncio.wait([task])


@pytest.mark.parametrize("error", [KeyError("x"), ValueError("x"), OSError("x")])
async def test_a_defect_costs_its_own_answer_alone(tmp_path, caplog, error):
    path = str(tmp_path / "run/control.sock")

    async def broken(request):
        raise error

    task = asyncio.create_task(control_socket.serve(path, {"broken": broken}))
    await until(lambda: exists(path))
    for _ in range(2):
        assert await asked(path, b'{"do": "broken"}\n') == {
            "error": "internal error. The log of the agent has the details"
        }
    assert "control: a defect" in caplog.text
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()


async def test_no_number_of_seconds_ends_the_agent_or_waits_for_ever(node):
    await node.kubelet.start()
    async with run_agent(node) as process:
        await wait_for_socket(node, process)
        for seconds in ("-1" + "0" * 400, "1" + "0" * 400, "NaN", "-Infinity", "1e999", "true", '"long"'):
            answer = await asked(str(node.control), f'{{"do": "status", "seconds": {seconds}}}\n'.encode())
            assert answer["resources"], seconds
        revision = answer["revision"]
        for seconds in ("-1" + "0" * 400, "NaN", "-Infinity"):
            request = f'{{"do": "status", "unlike": "{revision}", "seconds": {seconds}}}\n'.encode()
            assert (await asked(str(node.control), request))["revision"], seconds
        process.send(signal.SIGTERM)
        assert await process.ended() == 0


async def test_who_does_not_take_its_answer_does_not_hold_up_the_end(tmp_path):
    path = str(tmp_path / "run/control.sock")

    async def long(request):
        return {"said": "x" * 8_000_000}

    task = asyncio.create_task(control_socket.serve(path, {"long": long}))
    await until(lambda: exists(path))
    reader, writer = await asyncio.open_unix_connection(path, limit=1)
    writer.write(b'{"do": "long"}\n')
    assert await reader.readexactly(1) == b"{"  # and no more
    task.cancel()
    assert (await asyncio.wait([task], timeout=30))[0] == {task}
    writer.close()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can be somebody else")
async def test_one_user_shuts_out_nobody_else(echo_socket):
    top = Path(tempfile.gettempdir())
    for path in (Path(echo_socket), *Path(echo_socket).parents):
        if top in path.parents:
            path.chmod(0o777)
    script = (
        "import os, socket, sys; os.setuid(65534); c = socket.socket(socket.AF_UNIX); c.connect(sys.argv[1]);"
        " c.sendall(b'{\"do\": \"echo\"}\\n'); print(c.makefile().readline(), end='')"
    )
    command = [sys.executable, "-c", script, echo_socket]
    async with busy(echo_socket):
        done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=False, timeout=60)
    assert json.loads(done.stdout) == {"said": {"do": "echo"}}


async def test_a_socket_that_nobody_answers_is_replaced_and_a_live_one_is_not(tmp_path, caplog):
    path = str(tmp_path / "control.sock")
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(path)
    bound = control_socket.bind_socket_file(path)
    bound.listen()
    await control_socket.serve(path, {})
    assert "Address already in use" in caplog.text
    assert exists(path)
    bound.close()


async def test_a_file_at_the_path_that_is_no_socket_stays(tmp_path, caplog):
    path = tmp_path / "control.sock"
    path.write_text("a file of somebody else")
    await control_socket.serve(str(path), {})
    assert f"{path} cannot be used ({path} is no socket)" in caplog.text
    assert path.read_text() == "a file of somebody else"


async def test_where_no_socket_can_be_the_agent_serves_all_the_same(node):
    node.control.parent.write_text("a file")
    await node.kubelet.start()
    async with run_agent(node) as process:
        await node.streaming(FOO, BAR)
        await node.until(lambda: "cannot be used" in process.log)
        process.send(signal.SIGTERM)
        assert await process.ended() == 0
    assert "Traceback" not in process.log


@pytest.mark.skipif(os.getuid() != 0, reason="only root can be somebody else")
async def test_who_may_not_ask_is_told(node):
    async with run_agent(node) as process:
        await wait_for_socket(node, process)
        for directory in (node.top, node.control.parent):
            directory.chmod(0o711)
        done = await asyncio.to_thread(device_agent, "reload", "--config", str(node.etc), nobody=True)
        assert (done.returncode, done.stdout) == (5, "")
        assert "permission denied" in done.stderr
