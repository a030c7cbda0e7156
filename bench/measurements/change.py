"""A device disappears or appears: the time until its list arrives."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from bench.result import Line, Result, quantile
from bench.size import Size
from bench.subjects import Subject

NAME = "change"


async def measure(subjects: Sequence[Subject], size: Size) -> Result:
    resources = size.change_resources
    devices = max(1, size.change_devices // resources)
    for subject in subjects:
        await subject.serve(resources, devices)
    await asyncio.sleep(size.settle)
    taken: dict[str, list[float]] = {subject.name: [] for subject in subjects}
    for number in range(size.changes):
        resource = number % resources
        turn = number // resources
        for subject in subjects:
            stream = subject.kubelet.streams[f"bench.example/r{resource:03}"]
            before = stream.lists
            begun = time.perf_counter()
            subject.change(resource, turn // 2 % devices, healthy=bool(turn % 2))
            await subject.kubelet.until(lambda stream=stream, before=before: stream.lists > before)
            taken[subject.name].append((stream.at - begun) * 1000)
            await asyncio.sleep(size.pause)
    what = f"change → list, {resources} resources, {resources * devices} devices"
    return Result(
        [
            Line(
                NAME, f"{what}: p50", "ms", {name: quantile(all_, 0.5) for name, all_ in taken.items()}, 5.0, digits=2
            ),
            Line(
                NAME, f"{what}: p95", "ms", {name: quantile(all_, 0.95) for name, all_ in taken.items()}, 20.0, digits=2
            ),
        ]
    )
