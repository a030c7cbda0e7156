"""fake-kubelet as a process, and the pytest plugin as other projects see it."""

import asyncio
import json
import signal
import subprocess
import sys
from types import SimpleNamespace

import pytest

from tests.simulated.tiny_plugin import device

FOO = "example.com/foo"


class Process:
    def __init__(self, process):
        self.process = process
        self.lines = []

    async def say(self, line):
        self.process.stdin.write(line.encode() + b"\n")
        await self.process.stdin.drain()

    async def read(self, wanted):
        """Lines until one has what is wanted."""
        while True:
            line = json.loads(await self.process.stdout.readline())
            self.lines.append(line)
            if all(line.get(key) == value for key, value in wanted.items()):
                return line


@pytest.fixture
async def command(tmp_path):
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "device_agent_lab.simulated.command", tmp_path, "--pod-resources", tmp_path / "pr"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    one = Process(process)
    await one.read({"event": "pod_resources"})
    yield one
    if process.returncode is None:
        process.kill()
        await process.wait()
    process.stdin.close()
    process._transport.close()


async def test_a_session(command, plugin, tmp_path):
    assert (tmp_path / "pr" / "kubelet.sock").exists()
    kubelet = SimpleNamespace(directory=str(tmp_path), socket=str(tmp_path / "kubelet.sock"))
    foo = await plugin(kubelet, devices=[device("a")])
    await foo.register()
    event = await command.read({"event": "list"})
    assert (event["resource"], event["healthy"]) == (FOO, 1)

    await command.say(f"allocate p c {FOO} 1")
    answer = await command.read({"done": f"allocate p c {FOO} 1"})
    assert answer["answer"]["envs"] == {"IDS": "a"}
    await command.say(json.dumps({"command": "allocate", "pod": "q", "container": "c", "resource": FOO, "count": 1}))
    assert (await command.read({"event": "pod_refused"}))["pod"] == "q"
    await command.say("show")
    shown = (await command.read({"done": "show"}))["answer"]
    assert shown["resources"][FOO]["held"] == {"a": "p/c"}
    await command.say("remove p")
    await command.read({"done": "remove p"})
    await command.say("refuse not today")
    await command.read({"done": "refuse not today"})
    await command.say("restart")
    assert (await command.read({"done": "restart"}))["answer"]["running"] is True
    await command.say("nonsense")
    assert "none of" in (await command.read({"failed": "nonsense"}))["error"]
    await command.say("allocate p")
    assert (await command.read({"failed": "allocate p"}))["error"] == "allocate POD CONTAINER RESOURCE COUNT"

    command.process.stdin.close()
    assert await command.process.wait() == 0


async def test_sigterm_ends_it_even_in_a_call_that_hangs(command, plugin, tmp_path):
    kubelet = SimpleNamespace(directory=str(tmp_path), socket=str(tmp_path / "kubelet.sock"))
    foo = await plugin(kubelet, devices=[device("a")])
    foo.gate = asyncio.Event()
    await foo.register()
    await command.read({"event": "list"})
    await command.say(f"allocate p c {FOO} 1")
    await command.read({"event": "allocate"})
    command.process.send_signal(signal.SIGTERM)
    assert await command.process.wait() == 0
    foo.gate.set()


def test_commands_from_a_file(tmp_path):
    (tmp_path / "commands").write_text("show\n")
    with (tmp_path / "commands").open() as commands:
        done = subprocess.run(
            [sys.executable, "-m", "device_agent_lab.simulated.command", tmp_path / "dp"],
            stdin=commands,
            capture_output=True,
            check=True,
        )
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert {"done": "show", "answer": {"running": True, "resources": {}, "pods": {}}} in lines


def test_the_pytest_plugin_imports_nothing_heavy():
    code = (
        "import sys, pytest; before = set(sys.modules); import device_agent_lab.simulated.pytest_plugin;"
        "print(*(set(sys.modules) - before))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True).stdout
    assert all(name.startswith("device_agent_lab") or name == "__future__" for name in out.split()), out
    assert len(out.split()) <= 5


async def test_the_fixture(kubelet):
    assert kubelet.running
