"""Looks at a big machine: the first, a full rescan, one event. Also the memory that remains.

The machine is a tree of files (`bench.hardware`), mounted over /sys where that can be done: there the agent reads as it
does on a host. As a tree with a root of its own each path costs more, as its links must not lead out.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench.hardware import Hardware
from bench.result import Line, Result, quantile
from bench.size import Size
from bench.subjects import TOP, Agent, Subject, environment

NAME = "look"

VFS = """\
source = "pci"
match = {{ vendor = "15b3", device = "101e", is_vf = true, pf.netdev.name = "enp{0}s0f0np0" }}
"""
OTHERS = """\
source = "pci"
match = {{ vendor = "8086", device = "09{0:02}" }}
"""
NETDEVS = """\
source = "net"
match = {{ carrier = true, pci.device = "101d", default_route = false, name = {{ like = "eth{0}v*" }} }}
"""
GPUS = """\
source = "drm"
"""
STICKS = """\
source = "usb"
"""
ADAPTERS = """\
source = "infiniband"
match = { link_layers = { has = "Ethernet" } }
"""
GIVE = 'give.env.NAME = { value = "{name}", join = "," }\n'


async def measure(subjects: Sequence[Subject], size: Size) -> Result:
    del subjects
    with tempfile.TemporaryDirectory(prefix="bench-") as top:
        hardware = Hardware(f"{top}/tree")
        hardware.build(functions=size.look_functions, nics=size.look_nics, gpus=2 * size.look_nics, hubs=6)
        _configure(Path(top), size.look_nics, size.look_entries)
        command = [sys.executable, "-m", "bench.look_process"]
        last = [f"{top}/configuration", str(size.looks)]
        mounted = os.geteuid() == 0 and shutil.which("unshare") is not None
        if mounted:
            mount = f'mount --bind {top}/tree/sys /sys && exec "$@"'
            command = ["unshare", "--mount", "sh", "-c", mount, "sh", *command, "/", *last]
        else:
            command += [f"{top}/tree", *last]
        done = await asyncio.to_thread(
            subprocess.run, command, cwd=TOP, env=environment(), capture_output=True, check=False
        )
    if done.returncode:
        return Result([], notes=[f"look: left out: {done.stderr.decode(errors='replace').strip()[-200:]}"])
    found = json.loads(done.stdout)
    machine = f"{hardware.functions} functions, {found['devices']} devices, {found['resources']} resources"
    notes = [] if mounted else ["look: on a tree with a root of its own; on a host it costs less"]
    return Result(
        [
            _line(f"a look at everything, {machine}: CPU, least", "ms", min(found["fresh"])),
            _line("the same again, the sweep: CPU, least", "ms", min(found["sweep"]), 150.0),
            *(
                _line(f"one event, {kind} → lists: CPU, p50", "ms", quantile(times, 0.5), 3.0)
                for kind, times in found["events"].items()
            ),
            _line("kept of a look and its lists, a device", "KiB", found["bytes"] / 1024, 10.0),
        ],
        notes=notes,
    )


def _configure(top: Path, nics: int, entries: int) -> None:
    """Entries of every kind, most of them about functions."""
    texts = [VFS.format(number) for number in range(nics)]
    texts += [NETDEVS.format(number) for number in range(nics)] + [GPUS, STICKS, ADAPTERS]
    texts += [OTHERS.format(number) for number in range(max(1, entries - len(texts)))]
    (top / "configuration/resources.d").mkdir(parents=True)
    (top / "configuration/resources.d/all.toml").write_text(
        "".join(f'[[resource]]\nname = "bench.example/r{at}"\n{text}{GIVE}' for at, text in enumerate(texts))
    )


def _line(what: str, unit: str, value: float, budget: float | None = None) -> Line:
    return Line(NAME, what, unit, {Agent.name: value}, budget, digits=1)
