"""The kubelet's own device manager, built from its source and driven by JSON lines (tests/kubelet/README.md)."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Iterable
from typing import Any, Self

from bench.subjects import TOP
from bench.waits import PATIENCE, Waits
from tests.real.manager import Manager

NAME = "manager-1.37"


def build() -> str:
    """Build the program if needed and return its path. If this fails, print the reason and return an empty string."""
    built = subprocess.run([TOP / "tests/kubelet/build", NAME], stdout=subprocess.PIPE, text=True, check=False)
    return "" if built.returncode else built.stdout.split()[1]


class DeviceManager:
    """One process: `async with DeviceManager(program, directory) as manager`.

    Attributes: started: when it began to listen; times are those of time.monotonic().
    """

    def __init__(self, program: str, directory: str) -> None:
        os.makedirs(directory, exist_ok=True)
        self._manager = Manager(program, directory, heard=self._heard)
        self._allocatable: dict[str, tuple[int, float]] = {}  # and since when
        self._waits = Waits()
        self.started = 0.0

    async def __aenter__(self) -> Self:
        await self._manager.__aenter__()
        await self._waits.until(lambda: self.started > 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._manager.close()

    async def ask(self, do: str, **fields: object) -> dict[str, Any]:
        """Send one request and return its answer, which must be a success."""
        async with asyncio.timeout(PATIENCE):
            answer = await self._manager.do(do, **fields)
        if not answer["ok"]:
            raise RuntimeError(f"{do}: {answer}")
        return answer

    async def allocatable(self, resources: Iterable[str], number: int) -> float:
        """Return the time when the node status had this number of devices for each resource, also in the past."""
        wanted = tuple(resources)
        await self._waits.until(lambda: all(self._seen(name)[0] == number for name in wanted))
        return max(self._seen(name)[1] for name in wanted)

    def _seen(self, resource: str) -> tuple[int, float]:
        return self._allocatable.get(resource, (0, self.started))

    def _heard(self, said: dict[str, Any]) -> None:
        if said["event"] == "started":
            self._allocatable = {}
            self.started = said["t"]
        elif said["event"] == "resources":
            for name, counts in said["changed"].items():
                if counts["allocatable"] != self._seen(name)[0]:
                    self._allocatable[name] = counts["allocatable"], said["t"]
        self._waits.look()
