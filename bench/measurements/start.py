"""The time from the start of the process to the lists of all its resources."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from bench.process import cpu_seconds
from bench.result import Line, Result, median
from bench.size import Size
from bench.subjects import Subject

NAME = "start"
BUDGET = 350.0


async def measure(subjects: Sequence[Subject], size: Size) -> Result:
    first: dict[str, list[float]] = {subject.name: [] for subject in subjects}
    every: dict[str, list[float]] = {subject.name: [] for subject in subjects}
    cpu: dict[str, list[float]] = {subject.name: [] for subject in subjects}
    for _ in range(size.starts):
        for subject in subjects:
            await subject.serve(size.start_resources, 4)
            cpu[subject.name].append(cpu_seconds(subject.pid) * 1000)
            times = [(stream.at - subject.spawned) * 1000 for stream in subject.kubelet.streams.values()]
            first[subject.name].append(min(times))
            every[subject.name].append(max(times))
            subject.end()
            await asyncio.sleep(0.1)
    what = f"process start → %s, {size.start_resources} resources"
    return Result(
        [
            Line(NAME, f"{what % 'first list'}: p50", "ms", {n: median(all_) for n, all_ in first.items()}, BUDGET),
            Line(NAME, f"{what % 'first list'}: best", "ms", {n: min(all_) for n, all_ in first.items()}, BUDGET),
            Line(NAME, f"{what % 'all lists'}: best", "ms", {n: min(all_) for n, all_ in every.items()}),
            Line(NAME, f"{what % 'all lists'}: CPU, least", "ms", {n: min(all_) for n, all_ in cpu.items()}),
        ]
    )
