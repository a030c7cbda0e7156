"""A network device appears, and only the kernel event reports it."""

from __future__ import annotations

import asyncio
import fcntl
import os
import struct
import time
from collections.abc import Sequence

from bench.result import Line, Result, quantile
from bench.size import Size
from bench.subjects import Agent, Subject

NAME = "uevent"
KINDS = 8
ENTRY = """\
[[resource]]
name = "bench.example/tun{number}"
source = {{ subsystem = "net" }}
match = {{ name = "bench{number}" }}
id = "{{name}}"
accept = {{ unstable-id = "it is the measurement's own" }}
"""
TUNSETIFF = 0x400454CA
IFF_TUN, IFF_NO_PI = 0x0001, 0x1000


async def measure(subjects: Sequence[Subject], size: Size) -> Result:
    agent = next(subject for subject in subjects if isinstance(subject, Agent))
    if agent.nodes.root != "/":
        return Result([], notes=["uevent: left out, a tree on disk has no events of the kernel"])
    try:
        os.close(_tun(KINDS))
    except OSError as error:
        return Result([], notes=[f"uevent: left out, no network device can be made here: {error}"])
    agent.more = "".join(ENTRY.format(number=number) for number in range(KINDS))
    devices = max(1, size.change_devices // size.change_resources)
    try:
        await agent.kubelet.start()
        agent.spawn(size.change_resources, devices)
        await agent.kubelet.listed(size.change_resources + KINDS)
    finally:
        agent.more = ""
    await asyncio.sleep(size.settle)
    whole: list[float] = []
    after: list[float] = []
    for number in range(size.uevents):
        stream = agent.kubelet.streams[f"bench.example/tun{number % KINDS}"]
        begun = time.perf_counter()
        tun = _tun(number % KINDS)
        made = time.perf_counter()
        await agent.kubelet.until(lambda stream=stream: stream.healthy == 1)
        whole.append((stream.at - begun) * 1000)
        after.append((stream.at - made) * 1000)
        await asyncio.sleep(size.pause)
        os.close(tun)
        await agent.kubelet.until(lambda stream=stream: stream.healthy == 0)
        await asyncio.sleep(size.pause)
    return Result(
        [
            _line("p50, with making the device", quantile(whole, 0.5), 5.0),
            _line("p95, with making the device", quantile(whole, 0.95), 20.0),
            _line("p50, from when the device was made", quantile(after, 0.5)),
        ]
    )


def _line(what: str, milliseconds: float, budget: float | None = None) -> Line:
    return Line(NAME, f"uevent → list: {what}", "ms", {Agent.name: milliseconds}, budget, digits=2)


def _tun(number: int) -> int:
    """Make a network device that exists until the descriptor is closed."""
    handle = os.open("/dev/net/tun", os.O_RDWR)
    try:
        fcntl.ioctl(handle, TUNSETIFF, struct.pack("16sH22x", f"bench{number}".encode(), IFF_TUN | IFF_NO_PI))
    except OSError:
        os.close(handle)
        raise
    return handle
