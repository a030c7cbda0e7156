"""The kubelet's own device manager: the time until the node status has a change, and the wait of a container."""

from __future__ import annotations

import asyncio
import glob
import os
import time
from collections.abc import Sequence

from bench.device_manager import NAME as MANAGER
from bench.device_manager import DeviceManager, build
from bench.kubelet import SOCKET
from bench.result import Line, Result, median, quantile
from bench.size import Size
from bench.subjects import Subject

NAME = "real"
DEVICES = 4  # of each resource

Times = dict[str, list[float]]  # milliseconds, by subject


async def measure(subjects: Sequence[Subject], size: Size) -> Result:
    program = await asyncio.to_thread(build) if size.real_resources else ""
    if not program:
        return Result([], notes=[f"real: left out, there is no {MANAGER}"])
    lines = []
    for resources in size.real_resources:
        start: Times = {}
        restart: Times = {}
        change: Times = {}
        allocate: Times = {}
        for subject in subjects:
            async with DeviceManager(program, subject.kubelet.directory) as manager:
                one = On(subject, manager, resources)
                start[subject.name] = [await one.start() for _ in range(size.real_starts)]
                await asyncio.sleep(size.settle)
                change[subject.name] = [await one.change(n, size.real_pause) for n in range(size.real_changes)]
                allocate[subject.name] = [await one.allocate(n) for n in range(size.real_allocations)]
                restart[subject.name] = [await one.restart(size.settle) for _ in range(size.real_starts)]
                subject.end()
        what = f"{resources} {'resource' if resources == 1 else 'resources'}"
        lines += [
            _line(f"process start → allocatable on the node, {what}: best", {n: min(t) for n, t in start.items()}),
            _line(f"kubelet start → all allocatable again, {what}: p50", {n: median(t) for n, t in restart.items()}),
            _line(f"change → the node's allocatable, {what}: p50", {n: median(t) for n, t in change.items()}),
            _line(f"change → the node's allocatable, {what}: p95", {n: quantile(t, 0.95) for n, t in change.items()}),
            _line(f"Allocate as the kubelet sees it, {what}: p50", {n: median(t) for n, t in allocate.items()}),
        ]
    return Result(lines)


class On:
    """One server on one device manager."""

    def __init__(self, subject: Subject, manager: DeviceManager, resources: int) -> None:
        self._subject, self._manager = subject, manager
        self._names = [f"bench.example/r{number:03}" for number in range(resources)]

    async def start(self) -> float:
        """Start a new process. Kill the previous one first, and wait until the kubelet has seen that."""
        self._subject.end()
        await self._manager.allocatable(self._names, 0)
        for socket in glob.glob(f"{self._subject.kubelet.directory}/*.sock"):
            if os.path.basename(socket) != SOCKET:  # bare servers do not clear away what is in their way
                os.unlink(socket)
        self._subject.spawn(len(self._names), DEVICES)
        return 1000 * (await self._manager.allocatable(self._names, DEVICES) - self._subject.spawned)

    async def restart(self, rest: float) -> float:
        await asyncio.sleep(rest)
        await self._manager.ask("stop")
        await self._manager.ask("begin")
        return 1000 * (await self._manager.allocatable(self._names, DEVICES) - self._manager.started)

    async def change(self, number: int, pause: float) -> float:
        """Remove a device, or bring it back."""
        await asyncio.sleep(pause)
        resource = number // 2 % len(self._names)
        begun = time.monotonic()
        self._subject.change(resource, 0, healthy=bool(number % 2))
        left = DEVICES if number % 2 else DEVICES - 1
        return 1000 * (await self._manager.allocatable([self._names[resource]], left) - begun)

    async def allocate(self, number: int) -> float:
        """One device for one container; the pod before it is over."""
        answer = await self._manager.ask(
            "admit", pod=f"p{number}", containers=[{"name": "c", "resources": {self._names[0]: 1}}]
        )
        await self._manager.ask("remove", pod=f"p{number}")
        return 1000 * float(answer["seconds"])


def _line(what: str, values: dict[str, float]) -> Line:
    return Line(NAME, what, "ms", values)
