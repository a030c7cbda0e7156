"""The kubelet's own device manager, built from its source and driven by JSON lines (tests/kubelet/README.md)."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from collections.abc import Callable, Iterable
from itertools import count
from typing import Any, Self

from bench.kubelet import PATIENCE
from bench.subjects import TOP

NAME = "manager-1.37"
LINE_LIMIT = 16 * 1024 * 1024


def build() -> str:
    """The program, built unless that was done before. Empty if it cannot be; it has said why then."""
    built = subprocess.run([TOP / "tests/kubelet/build", NAME], stdout=subprocess.PIPE, text=True, check=False)
    return "" if built.returncode else built.stdout.split()[1]


class DeviceManager:
    """One process: `async with DeviceManager(program, directory) as manager`.

    Attributes: started: when it began to listen; times are those of time.monotonic().
    """

    def __init__(self, program: str, directory: str) -> None:
        os.makedirs(directory, exist_ok=True)
        self._command = (program, "-directory", directory)
        self._allocatable: dict[str, tuple[int, float]] = {}  # and since when
        self._numbers = count()
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._waits: list[tuple[Callable[[], bool], asyncio.Future[None]]] = []
        self.started = 0.0

    async def __aenter__(self) -> Self:
        pipe = asyncio.subprocess.PIPE
        self._process = await asyncio.create_subprocess_exec(
            *self._command, stdin=pipe, stdout=pipe, stderr=asyncio.subprocess.DEVNULL, limit=LINE_LIMIT
        )
        self._reading = asyncio.create_task(self._read())
        await self._until(lambda: self.started > 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()  # it ends with it
        await self._reading
        await self._process.wait()

    async def ask(self, do: str, **fields: object) -> dict[str, Any]:
        """The answer to one request, which has to be a good one."""
        number = next(self._numbers)
        self._answers[number] = asyncio.get_running_loop().create_future()
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"id": number, "do": do, **fields}).encode() + b"\n")
        async with asyncio.timeout(PATIENCE):
            answer = await self._answers[number]
        if not answer["ok"]:
            raise RuntimeError(f"{do}: {answer}")
        return answer

    async def allocatable(self, resources: Iterable[str], number: int) -> float:
        """When each of these resources had that many in what the kubelet tells of its node; it may have been before."""
        wanted = tuple(resources)
        await self._until(lambda: all(self._seen(name)[0] == number for name in wanted))
        return max(self._seen(name)[1] for name in wanted)

    def _seen(self, resource: str) -> tuple[int, float]:
        return self._allocatable.get(resource, (0, self.started))

    async def _until(self, condition: Callable[[], bool]) -> None:
        if condition():
            return
        wait: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waits.append((condition, wait))
        async with asyncio.timeout(PATIENCE):
            await wait

    async def _read(self) -> None:
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            said = json.loads(line)
            if "id" in said:
                self._answers.pop(said["id"]).set_result(said)
                continue
            if said["event"] == "started":
                self._allocatable = {}
                self.started = said["t"]
            elif said["event"] == "resources":
                for name, counts in said["changed"].items():
                    if counts["allocatable"] != self._seen(name)[0]:
                        self._allocatable[name] = counts["allocatable"], said["t"]
            for wait in [wait for wait in self._waits if wait[0]()]:
                self._waits.remove(wait)
                if not wait[1].done():
                    wait[1].set_result(None)
