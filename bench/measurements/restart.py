"""The kubelet restarts: the time until it lists all resources."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from bench.process import cpu_seconds
from bench.result import Line, Result, median
from bench.size import Size
from bench.subjects import Subject

NAME = "restart"
BUDGETS = {1: 50.0, 64: 300.0}
DOWN = 0.2  # seconds without a kubelet


async def measure(subjects: Sequence[Subject], size: Size) -> Result:
    lines = []
    for resources in size.restart_resources:
        for subject in subjects:
            await subject.serve(resources, 4)
        await asyncio.sleep(size.settle)
        wall: dict[str, list[float]] = {subject.name: [] for subject in subjects}
        cpu: dict[str, list[float]] = {subject.name: [] for subject in subjects}
        for _ in range(size.restarts):
            for subject in subjects:
                subject.kubelet.stop()
                await asyncio.sleep(DOWN)
                before = cpu_seconds(subject.pid)
                await subject.kubelet.start()
                done = await subject.kubelet.listed(resources)
                wall[subject.name].append((done - subject.kubelet.started) * 1000)
                await asyncio.sleep(size.settle / 3)
                cpu[subject.name].append((cpu_seconds(subject.pid) - before) * 1000)
        for subject in subjects:
            subject.end()
        what = f"kubelet restart → all listed, {resources} {'resource' if resources == 1 else 'resources'}"
        budget = BUDGETS.get(resources)
        lines += [
            Line(NAME, f"{what}: p50", "ms", {name: median(all_) for name, all_ in wall.items()}, budget),
            Line(NAME, f"{what}: best", "ms", {name: min(all_) for name, all_ in wall.items()}, budget),
            Line(NAME, f"{what}: CPU, least", "ms", {name: min(all_) for name, all_ in cpu.items()}),
        ]
    return Result(lines)
