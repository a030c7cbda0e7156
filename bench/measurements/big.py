"""One change in a list of 10,000 devices."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from bench.process import cpu_seconds
from bench.result import Line, Result, median
from bench.size import Size
from bench.subjects import Subject

NAME = "big"
BUDGET = 1.5
REST = 0.4  # seconds between changes: above what the agent's pace of lists asks for


async def measure(subjects: Sequence[Subject], size: Size) -> Result:
    for subject in subjects:
        await subject.serve(1, size.big)
    await asyncio.sleep(2 * size.settle)
    wall: dict[str, list[float]] = {subject.name: [] for subject in subjects}
    sending: dict[str, list[float]] = {subject.name: [] for subject in subjects}
    total: dict[str, list[float]] = {subject.name: [] for subject in subjects}
    for number in range(size.big_changes):
        for subject in subjects:
            stream = subject.kubelet.streams["bench.example/r000"]
            before = stream.lists
            cpu = cpu_seconds(subject.pid)
            begun = time.perf_counter()
            subject.change(0, size.big // 2, healthy=bool(number % 2))
            await subject.kubelet.until(lambda stream=stream, before=before: stream.lists > before)
            sending[subject.name].append((cpu_seconds(subject.pid) - cpu) * 1000)
            wall[subject.name].append((stream.at - begun) * 1000)
            await asyncio.sleep(REST)
            total[subject.name].append((cpu_seconds(subject.pid) - cpu) * 1000)
    what = f"one change in {size.big} devices"
    return Result(
        [
            Line(NAME, f"{what}: CPU until the list is there, p50", "ms", _medians(sending), BUDGET, digits=2),
            Line(NAME, f"{what}: CPU all told, p50", "ms", _medians(total), digits=2),
            Line(NAME, f"{what}: wall, p50", "ms", _medians(wall), digits=2),
        ]
    )


def _medians(values: dict[str, list[float]]) -> dict[str, float]:
    return {name: median(all_) for name, all_ in values.items()}
