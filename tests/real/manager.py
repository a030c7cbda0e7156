"""The Go program around a real kubelet's device manager, driven by JSON lines (tests/kubelet/README.md)."""

import asyncio
import json
import os
import re
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Self

from device_agent_lab.simulated.errors import KubeletCrashed, KubeletStopped

LINE_LIMIT = 64 * 1024 * 1024


class Manager:
    """One process: `async with Manager(program, directory) as manager: await manager.do("capacity")`.

    `heard` is called with every event, in order; `ended` when the process has gone.
    """

    def __init__(
        self,
        program: str,
        directory: str,
        *options: str,
        heard: Callable[[dict[str, Any]], None] = lambda _: None,
        ended: Callable[[], None] = lambda: None,
    ) -> None:
        self._command = (program, "-directory", directory, *options)
        self._heard = heard
        self._ended = ended
        self._asked: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._number = 0
        self._over = False
        self.error = ""

    async def __aenter__(self) -> Self:
        self._process = await asyncio.create_subprocess_exec(
            *self._command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            limit=LINE_LIMIT,
        )
        self._reading = asyncio.create_task(self._read(), name="manager")
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def crashed(self) -> str | None:
        """The panic message of the kubelet."""
        if self._process.returncode != 2:
            return None
        panic = re.search(r"^(panic: .*|fatal error: .*)$", self.error, re.MULTILINE)
        return panic[1] if panic else self.error[:500]

    def files(self) -> int:
        """How many files and connections the kubelet has open."""
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    async def do(self, do: str, **fields: Any) -> dict[str, Any]:
        """The answer to one request, `ok` or not; KubeletCrashed if there will be none."""
        self._number += 1
        number = self._number
        answer = self._asked[number] = asyncio.get_running_loop().create_future()
        if self._over:
            self._fail(answer)
        else:
            self._process.stdin.write(json.dumps({"id": number, "do": do, **fields}).encode() + b"\n")
        try:
            return await answer
        finally:
            del self._asked[number]

    async def kill(self) -> None:
        """As a kubelet that gets SIGKILL."""
        with suppress(ProcessLookupError):
            self._process.kill()
        await self._reading

    async def close(self) -> None:
        """The program ends with its input."""
        self._process.stdin.close()
        try:
            async with asyncio.timeout(60):
                await asyncio.shield(self._reading)
        except TimeoutError:
            await self.kill()
            raise

    async def _read(self) -> None:
        error = asyncio.create_task(self._process.stderr.read())
        async for line in self._process.stdout:
            said = json.loads(line)
            if "event" in said:
                self._heard(said)
            elif said["id"] in self._asked and not self._asked[said["id"]].done():
                self._asked[said["id"]].set_result(said)
        self.error = (await error).decode()
        await self._process.wait()
        self._over = True
        for answer in self._asked.values():
            self._fail(answer)
        self._ended()

    def _fail(self, answer: asyncio.Future[dict[str, Any]]) -> None:
        if answer.done():
            return
        crashed = self.crashed
        answer.set_exception(KubeletStopped("the kubelet is gone") if crashed is None else KubeletCrashed(crashed))
