"""A device disappears for 0.3 s: the kubelet must get both changes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from bench.result import Line, Result, median
from bench.size import Size
from bench.subjects import Subject

NAME = "blip"


async def measure(subjects: Sequence[Subject], size: Size) -> Result:
    for subject in subjects:
        await subject.serve(1, 2)
    await asyncio.sleep(size.settle)
    seen: dict[str, list[float]] = {subject.name: [] for subject in subjects}
    for _ in range(size.blips):
        for subject in subjects:
            stream = subject.kubelet.streams["bench.example/r000"]
            before = stream.lists
            subject.change(0, 0, healthy=False)
            await asyncio.sleep(size.blip)
            subject.change(0, 0, healthy=True)
            await asyncio.sleep(max(size.settle, 0.5))
            seen[subject.name].append(stream.lists - before)
    lists = {name: median(all_) for name, all_ in seen.items()}
    return Result([Line(NAME, "a blip of 0.3 s: lists seen (two are right)", "", lists, 2.0, digits=0)])
