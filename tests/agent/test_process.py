"""The process: signals, exit codes, systemd. Numbers: see CONTRIBUTING.md."""

import asyncio
import os
import re
import resource
import shutil
import signal
import socket
import time
from contextlib import suppress

import pytest

from tests.agent.process import run_agent
from tests.agent.rig import BAR, FOO, entry
from tests.cli.conftest import device_agent


@pytest.fixture
async def node(rig):
    rig.plug("foo0", "bar0")
    rig.serve(FOO, BAR)
    return rig


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_stop_ends_streams_and_sockets(node, number):  # 47, 78
    await node.kubelet.start()
    async with run_agent(node) as process:
        await node.streaming(FOO, BAR)
        process.send(number)
        assert await process.ended_soon() == 0
        await node.until(lambda: node.kubelet.events.count("stream_ended") == 2)
        assert {event.detail["code"] for event in node.kubelet.events.select("stream_ended")} == {"OK"}
        assert node.sockets() == []
        assert node.registers() == 2
        assert process.said("STOPPING") == ["1"]
    assert "Traceback" not in process.log


async def test_stop_with_a_slow_reader(node):  # 50, 78
    node.plug("big0")
    node.serve(FOO, entry("example.com/big", "replicas = 4000"))
    await node.kubelet.start()
    async with run_agent(node) as process:
        await node.streaming(FOO, "example.com/big")
        node.kubelet.stop_reading("example.com/big")
        node.unplug("big0")
        node.plug("foo1")
        await node.allocatable(FOO, 2)
        process.send(signal.SIGTERM)
        assert await process.ended_soon() == 0
        assert node.sockets() == []


async def test_stop_while_the_disk_does_not_answer(node):
    """As a FIFO without a reader: its thread is in the kernel, where no signal reaches it."""
    await node.kubelet.start()
    node.state.mkdir(exist_ok=True)
    os.mkfifo(node.state / "state.json.new")
    async with run_agent(node, "--state", str(node.state)) as process:
        await node.streaming(FOO, BAR)
        process.send(signal.SIGTERM)
        assert await process.ended(20.0) == 0
        assert node.sockets() == []
    assert "the disk does not answer: what changed last is not remembered" in process.log


async def test_without_files_to_open_it_goes_on_and_says_so(node):
    """What it cannot read is unknown for as long, who knocks is not let in, and nothing of it lasts."""
    await node.kubelet.start()
    async with run_agent(node) as process:
        await node.streaming(FOO, BAR)
        pid = process.child.pid
        _, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        now = len(os.listdir(f"/proc/{pid}/fd"))
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (now + 4, hard))
        ended = await asyncio.to_thread(device_agent, "status", "--config", str(node.etc))
        assert (ended.returncode, ended.stderr) == (1, "")
        assert re.search(r"open files +short: .* files that may be open at once are", ended.stdout)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (1, hard))
        node.plug("foo1")
        node.unplug("bar0")
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(node.control))
            client.settimeout(5.0)
            with suppress(OSError):
                client.recv(1)  # nobody is let in
        await node.until(lambda: "open files: " in process.log or node.kubelet.allocatable(BAR) == 0)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (hard, hard))
        process.send(signal.SIGHUP)  # which looks at everything
        await node.allocatable(FOO, 2)
        await node.allocatable(BAR, 0)
        assert process.child.returncode is None
        process.send(signal.SIGTERM)
        assert await process.ended() == 0
    assert "Traceback" not in process.log


async def test_no_register_after_stop(node):  # 78
    """The kubelet is restarted while the agent stops; it gets no Register from one that is going."""
    await node.kubelet.start()
    async with run_agent(node) as process:
        await node.streaming(FOO, BAR)
        process.send(signal.SIGTERM)
        await node.until(lambda: process.said("STOPPING"))
        await node.kubelet.restart()
        assert await process.ended() == 0
        assert node.registers() == 0


async def test_stop_while_register_hangs(node):
    node.kubelet.faults.dial_late(1000, times=2)
    await node.kubelet.start()
    async with run_agent(node) as process:
        await node.until(lambda: node.registers() == 2)
        process.send(signal.SIGTERM)
        assert await process.ended_soon() == 0
        assert node.sockets() == []


async def test_stop_at_once(node):
    """As soon as signals are heard at all: before anything is listed."""
    async with run_agent(node) as process:
        await node.until(lambda: process.notices)
        process.send(signal.SIGTERM)
        assert await process.ended_soon() == 0
    assert "Traceback" not in process.log


async def test_killed_five_times_leaves_one_socket_each(node):  # 21, 79
    await node.kubelet.start()
    node.bystander()
    for _ in range(5):
        async with run_agent(node) as process:
            await node.streaming(FOO, BAR)
            process.send(signal.SIGKILL)
            await process.ended()
            await node.until(lambda: node.kubelet.streams(FOO) == node.kubelet.streams(BAR) == 0)
        assert len(node.sockets()) == 2
    async with run_agent(node):
        await node.streaming(FOO, BAR)
        assert len(node.sockets()) == 2
        assert (node.dp / "foreign.sock").exists()
        await node.allocatable(FOO, 1)


async def test_what_systemd_is_told(node):  # 83
    node.settings(kubelet="")
    await node.kubelet.start()
    async with run_agent(node, env={"WATCHDOG_USEC": "200000"}) as process:
        await node.until(lambda: process.said("READY"))
        await node.streaming(FOO, BAR)
        await node.until(lambda: any("2 resources streaming" in text for text in process.said("STATUS")))
        await node.until(lambda: len(process.said("WATCHDOG")) >= 3)
        node.serve(FOO)
        process.send(signal.SIGHUP)
        await node.until(lambda: len(process.said("READY")) == 2)
        fields = [next(iter(notice)) for notice in process.notices if notice.keys() & {"READY", "RELOADING"}]
        assert fields == ["READY", "RELOADING", "READY"]
        assert int(process.said("MONOTONIC_USEC")[0]) <= time.monotonic_ns() // 1000
        process.send(signal.SIGTERM)
        assert await process.ended() == 0
        assert process.said("STOPPING") == ["1"]
    assert process.said("READY") == ["1", "1"]


async def test_ready_comes_after_the_first_lists(node):  # 83
    """A kubelet that runs has everything when READY is said, or Register is under way."""
    await node.kubelet.start()
    async with run_agent(node) as process:
        await node.until(lambda: process.said("READY"))
        await node.streaming(FOO, BAR)
        assert all(seen.healthy for seen in node.kubelet.lists)  # never an empty list first (squat#33)


async def test_ready_without_a_kubelet(node):  # 83
    async with run_agent(node) as process:
        await node.until(lambda: process.said("READY"))
        assert any("does not exist" in text for text in process.said("STATUS"))
        await node.kubelet.start()
        await node.streaming(FOO, BAR)


async def test_second_process_refuses(node):  # 86
    await node.kubelet.start()
    async with run_agent(node):
        await node.streaming(FOO, BAR)
        before = node.sockets()
        code, log = await once(node)
        assert code == 1
        assert "another device-agent is running" in log
        assert "Traceback" not in log
        assert node.sockets() == before


async def once(node, *more):
    """A run that ends by itself: exit code and log."""
    async with run_agent(node, *more) as process:
        code = await process.ended()
    return code, process.log


@pytest.mark.parametrize("text", ["[kubelet\n", "[kubelet]\ndri = '/x'\n", b"\xff\xfe", "[log]\nlevel = 3\n"])
async def test_agent_toml_of_no_use_is_78(node, text):
    (node.etc / "agent.toml").write_bytes(text if isinstance(text, bytes) else text.encode())
    code, log = await once(node)
    assert code == 78
    assert "agent.toml" in log
    assert "Traceback" not in log


async def test_state_directory_that_cannot_be_written(node):
    node.state.write_text("a file")
    await node.kubelet.start()
    async with run_agent(node) as process:
        await node.streaming(FOO, BAR)
        options = await node.kubelet.allocate("pod", "c", {FOO: 1})
        assert options.devices
        process.send(signal.SIGTERM)
        assert await process.ended_soon() == 0
    assert process.log.count("cannot be used") == 1
    assert "Traceback" not in process.log


async def test_one_broken_file_keeps_no_other_from_being_served(node):  # squat/generic-device-plugin#27
    node.serve(FOO, file="10.toml")
    node.serve('[[resource]]\nname = "example.com/broken"\nsource = { node = "/dev/**" }\n', file="20.toml")
    node.serve("[[resource", file="30.toml")
    node.serve(BAR, file="40.toml")
    await node.kubelet.start()
    async with run_agent(node) as process:
        await node.streaming(FOO, BAR)
        assert {event.resource for event in node.kubelet.events.select("register")} == {FOO, BAR}
        await node.until(lambda: process.said("READY"))
        process.send(signal.SIGTERM)
        assert await process.ended() == 0
    assert "20.toml" in process.log
    assert "30.toml" in process.log


async def test_reload_with_errors_keeps_the_old_set(node):
    await node.kubelet.start()
    async with run_agent(node) as process:
        await node.streaming(FOO, BAR)
        await node.until(lambda: process.said("READY"))
        node.serve(entry(FOO, "replicas = 0"))
        process.send(signal.SIGHUP)
        await node.until(lambda: len(process.said("READY")) == 2)
        await node.until(lambda: "reload refused" in process.said("STATUS")[-1])
        assert node.kubelet.streams(FOO) == node.kubelet.streams(BAR) == 1
        assert node.kubelet.events.count("stream_ended") == 0
        node.serve(FOO, BAR)
        process.send(signal.SIGHUP)
        await node.until(lambda: len(process.said("READY")) == 3)
        await node.until(lambda: "reload refused" not in process.said("STATUS")[-1])


async def test_many_reloads_at_once_and_one_before_everything(node):
    async with run_agent(node) as process:
        await node.until(lambda: process.notices)
        for _ in range(20):
            process.send(signal.SIGHUP)
        await node.kubelet.start()
        await node.streaming(FOO, BAR)
        assert node.registers() == 2
        process.send(signal.SIGHUP)
        process.send(signal.SIGTERM)
        assert await process.ended_soon() == 0
        assert node.sockets() == []
    assert "Traceback" not in process.log


async def test_reload_asked_for_at_any_moment_of_the_start(node):
    """It does not kill, and systemd is told of it only after READY."""
    await node.kubelet.start()
    async with run_agent(node) as process:
        asked = 0
        while not (process.said("READY") and asked):  # a busy host may have passed over the start
            if catches_sighup(process):  # what is before that, when Python itself begins, no program can help
                process.send(signal.SIGHUP)
                asked += 1
            await asyncio.sleep(0.01)
        await node.streaming(FOO, BAR)
        await node.until(lambda: len(process.said("READY")) >= 2)
        fields = [next(iter(notice)) for notice in process.notices if notice.keys() & {"READY", "RELOADING"}]
        assert fields[:3] == ["READY", "RELOADING", "READY"]
        process.send(signal.SIGTERM)
        assert await process.ended() == 0


def catches_sighup(process):
    """Return whether SIGHUP does not kill the process."""
    with open(f"/proc/{process.child.pid}/status", encoding="ascii") as status:
        fields = dict(line.split(":", 1) for line in status)
    return (int(fields["SigIgn"], 16) | int(fields["SigCgt"], 16)) >> (signal.SIGHUP - 1) & 1


async def test_reload_says_the_warnings_too(node):
    await node.kubelet.start()
    async with run_agent(node) as process:
        await node.until(lambda: process.said("READY"))
        node.serve(FOO, entry("example.com/tty", nodes="/dev/ttyUSB*"))
        process.send(signal.SIGHUP)
        await node.until(lambda: len(process.said("READY")) == 2)
        process.send(signal.SIGTERM)
        assert await process.ended() == 0
    assert process.log.count("unstable-id") == 1


async def test_configuration_directory_missing(node):
    shutil.rmtree(node.etc)
    async with run_agent(node, "--state", str(node.state)) as process:
        await node.until(lambda: process.said("READY"))
        process.send(signal.SIGTERM)
        assert await process.ended_soon() == 0
    assert "Traceback" not in process.log


async def test_a_vanished_directory_of_resources_takes_nothing_from_anybody(node):
    await node.kubelet.start()
    async with run_agent(node) as process:
        await node.streaming(FOO, BAR)
        shutil.rmtree(node.etc / "resources.d")
        process.send(signal.SIGHUP)
        await node.until(lambda: "resources.d does not exist" in process.log)
        assert node.kubelet.streams(FOO) == 1
        process.send(signal.SIGTERM)
        assert await process.ended() == 0


@pytest.mark.parametrize("name", ["state.json", "lock"])
async def test_a_fifo_among_the_state_holds_up_nothing(node, name):
    node.state.mkdir(exist_ok=True)
    os.mkfifo(node.state / name)
    await node.kubelet.start()
    async with run_agent(node) as process:
        await node.streaming(FOO, BAR)
        process.send(signal.SIGTERM)
        assert await process.ended() == 0


async def test_state_survives_the_process(node):  # 44
    """An agent that was killed comes back with the ids that pods hold, whatever has become of the hardware."""
    await node.kubelet.start()
    async with run_agent(node) as process:
        await node.streaming(FOO, BAR)
        await node.kubelet.allocate("pod", "c", {FOO: 1})
        file = node.state / "state.json"
        await node.until(lambda: file.exists() and "foo0" in file.read_text().partition('"held"')[2])
        process.send(signal.SIGKILL)
        await process.ended()
    node.unplug("foo0")
    seen = len(node.kubelet.lists)
    async with run_agent(node):
        await node.until(lambda: any(one.resource == FOO for one in node.kubelet.lists[seen:]))
        first = next(one for one in node.kubelet.lists[seen:] if one.resource == FOO)
        assert (first.ids, first.healthy) == ({"foo0"}, frozenset())
        node.replug("foo0")
        await node.allocatable(FOO, 1)
    assert os.listdir(node.dp)


async def test_a_recording_is_served_as_the_machine_was(node):
    """What a person sent runs here, with its configuration; nothing of it comes or goes."""
    node.plug("foo1")
    file = str(node.top / "machine.rec")
    where = ("--config", str(node.etc), "--root", str(node.tree.top))
    done = await asyncio.to_thread(device_agent, "record", file, *where)
    assert done.returncode == 0, done.stderr
    await node.kubelet.start()
    async with run_agent(node, root=file) as process:
        await node.streaming(FOO, BAR)
        assert node.kubelet.healthy(FOO) == {"foo0", "foo1"}
        node.unplug("foo0")
        options = await node.kubelet.allocate("pod", "c", {FOO: 2})
        assert set(options.devices) == {"/dev/foo0", "/dev/foo1"}
        process.send(signal.SIGTERM)
        assert await process.ended() == 0
