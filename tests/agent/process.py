"""`device-agent run` as a process of its own, as systemd starts it."""

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Awaitable
from contextlib import asynccontextmanager

from tests.agent.rig import Rig


class Process:
    def __init__(self, child: asyncio.subprocess.Process, notices: list[dict[str, str]]) -> None:
        self.child = child
        self.notices = notices
        self.log = ""

    async def read(self) -> None:
        assert self.child.stderr is not None
        async for line in self.child.stderr:
            self.log += line.decode()

    def said(self, field: str) -> list[str]:
        """What systemd was told of a field, in order."""
        return [notice[field] for notice in self.notices if field in notice]

    def send(self, number: signal.Signals) -> None:
        self.child.send_signal(number)

    async def ended(self, seconds: float = 30.0) -> int:
        async with asyncio.timeout(seconds):
            return await self.child.wait()

    async def ended_soon(self) -> int:
        """Its exit code, within the 2 s that are promised: on a host that starts a Python in no time."""
        took, code = await _measure_time(self.ended())
        if took > PROMISED:
            idle, _ = await _measure_time(_idle())
            assert took < PROMISED * idle / AT_ONCE, f"it took {took:.1f} s, where a Python took {idle:.1f} s"
        return code


PROMISED, AT_ONCE = 2.0, 0.05


async def _measure_time(work: Awaitable[int]) -> tuple[float, int]:
    began = asyncio.get_running_loop().time()
    result = await work
    return asyncio.get_running_loop().time() - began, result


async def _idle() -> int:
    """A Python that does nothing, as a measure of what else the host does."""
    child = await asyncio.create_subprocess_exec(sys.executable, "-I", "-c", "")
    return await child.wait()


@asynccontextmanager
async def run_agent(rig: Rig, *more: str, root: str | None = None, env: dict[str, str] | None = None):
    """Yield a process. It is killed at the end if it still runs."""
    path = str(rig.top / f"notify{len(os.listdir(rig.top))}")
    notices: list[dict[str, str]] = []
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as systemd:
        systemd.bind(path)

        def told() -> None:
            text = systemd.recv(65536).decode()
            notices.append(dict(line.partition("=")[::2] for line in text.splitlines()))
            rig.kubelet.events.wake()

        loop = asyncio.get_running_loop()
        loop.add_reader(systemd, told)
        child = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "agent.cli.main", "run",
            "--config", str(rig.etc), "--root", root or str(rig.tree.top), *more,
            stderr=asyncio.subprocess.PIPE,
            env={**os.environ, "NOTIFY_SOCKET": path, **(env or {})},
        )  # fmt: skip
        process = Process(child, notices)
        reading = asyncio.create_task(process.read())
        try:
            yield process
        finally:
            if child.returncode is None:
                child.kill()
            await child.wait()
            await reading
            loop.remove_reader(systemd)
            os.unlink(path)
