"""The cost of an idle agent, and of a full rescan."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from bench.process import cpu_seconds, wakeups
from bench.result import Line, Result
from bench.size import Size
from bench.subjects import Agent, Subject

NAME = "idle"


async def measure(subjects: Sequence[Subject], size: Size) -> Result:
    resources, devices = size.change_resources, max(1, size.change_devices // size.change_resources)
    for subject in subjects:
        await subject.serve(resources, devices)
    await asyncio.sleep(3 * size.settle)
    before = {subject.name: (wakeups(subject.pid), cpu_seconds(subject.pid)) for subject in subjects}
    await asyncio.sleep(size.idle)
    woken = {}
    cpu = {}
    for subject in subjects:
        woken[subject.name] = (wakeups(subject.pid) - before[subject.name][0]) / size.idle
        cpu[subject.name] = (cpu_seconds(subject.pid) - before[subject.name][1]) * 1000 / size.idle
    agent = next(subject for subject in subjects if isinstance(subject, Agent))
    agent.end()
    agent.every = "1s"
    try:
        await agent.serve(resources, devices)
        await asyncio.sleep(3 * size.settle)
        begun = cpu_seconds(agent.pid)
        seconds = max(1.0, size.idle / 2)
        await asyncio.sleep(seconds)
        sweep = (cpu_seconds(agent.pid) - begun) * 1000 / seconds
    finally:
        agent.every = "1h"
    return Result(
        [
            Line(NAME, f"idle, {resources} resources: wake-ups a second (between sweeps)", "", woken, 0.0, digits=2),
            Line(NAME, f"idle, {resources} resources: CPU a second (between sweeps)", "ms", cpu, digits=2),
            Line(
                NAME, f"a sweep, {resources} resources, {resources * devices} devices: CPU", "ms", {agent.name: sweep}
            ),
        ]
    )
