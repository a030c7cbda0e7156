"""Allocate calls, one at a time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from bench.process import cpu_seconds
from bench.result import Line, Result, quantile
from bench.size import Size
from bench.subjects import Subject

NAME = "allocate"
TIMES_GO = 4.0
DEVICES = 16


async def measure(subjects: Sequence[Subject], size: Size) -> Result:
    for subject in subjects:
        await subject.serve(1, DEVICES)
    await asyncio.sleep(size.settle)
    taken: dict[str, list[float]] = {subject.name: [] for subject in subjects}
    cpu: dict[str, list[float]] = {subject.name: [] for subject in subjects}
    for subject in subjects:  # what happens once happens now
        await _batch(subject, size.batch)
    for _ in range(max(1, size.allocations // size.batch)):
        for subject in subjects:
            before = cpu_seconds(subject.pid)
            taken[subject.name] += await _batch(subject, size.batch)
            cpu[subject.name].append((cpu_seconds(subject.pid) - before) * 1e6 / size.batch)
    return Result(
        [
            Line(NAME, "Allocate: p50", "µs", _all(taken, 0.5), TIMES_GO, ratio=True, digits=0),
            Line(NAME, "Allocate: p99", "µs", _all(taken, 0.99), digits=0),
            Line(NAME, "Allocate: CPU a call, p50 of batches", "µs", _all(cpu, 0.5), digits=0),
        ]
    )


async def _batch(subject: Subject, count: int) -> list[float]:
    kubelet = subject.kubelet
    resource = "bench.example/r000"
    taken = []
    for id in ids(kubelet.streams[resource].last, count):  # noqa: A001  the API's own word
        begun = time.perf_counter()
        await kubelet.allocate(resource, id)
        taken.append((time.perf_counter() - begun) * 1e6)
    return taken


def ids(body: bytes, count: int) -> list[str]:
    """So many ids out of a list of small devices, from the start again at its end."""
    found = []
    at = 0
    while at < len(body):
        found.append(body[at + 4 : at + 4 + body[at + 3]].decode())
        at += 2 + body[at + 1]
    return [found[number % len(found)] for number in range(count)]


def _all(values: dict[str, list[float]], part: float) -> dict[str, float]:
    return {name: quantile(all_, part) for name, all_ in values.items()}
