"""Memory by number of resources, each with some devices and an open stream."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from bench.process import memory
from bench.result import Line, Result
from bench.size import Size
from bench.subjects import Subject

NAME = "memory"
BUDGETS = {16: 38.0, 64: 44.0, 200: 70.0}


async def measure(subjects: Sequence[Subject], size: Size) -> Result:
    lines = []
    for resources in size.memory_resources:
        rss = {}
        pss = {}
        for subject in subjects:
            await subject.serve(resources, size.memory_devices)
            await asyncio.sleep(size.settle)
            rss[subject.name], pss[subject.name] = memory(subject.pid)
            subject.end()
        what = f"memory, {resources} {'resource' if resources == 1 else 'resources'}"
        lines += [
            Line(NAME, f"{what}: RSS", "MiB", rss, BUDGETS.get(resources)),
            Line(NAME, f"{what}: PSS", "MiB", pss),
        ]
    return Result(lines)
