"""The cost of Python's start and all imports, before the first line of the agent runs."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Sequence

from bench.result import Line, Result
from bench.size import Size
from bench.subjects import TOP, Subject, environment

NAME = "imports"
PROGRAMS = {"agent": "import agent.cli.run", "bare Python": "import bench.bare"}
NOTHING = "pass"


async def measure(subjects: Sequence[Subject], size: Size) -> Result:
    del subjects
    cpu: dict[str, list[float]] = {name: [] for name in (*PROGRAMS, NOTHING)}
    for _ in range(size.imports):
        for name, taken in cpu.items():
            program = f"{PROGRAMS.get(name, NOTHING)}; import time; print(time.process_time())"
            command = [sys.executable, "-c", program]
            done = await asyncio.to_thread(
                subprocess.run, command, cwd=TOP, env=environment(), capture_output=True, check=True
            )
            taken.append(float(done.stdout) * 1000)
    least = {name: min(all_) for name, all_ in cpu.items()}
    nothing = least.pop(NOTHING)
    return Result([Line(NAME, f"Python and imports: CPU, least (Python alone: {nothing:.0f} ms)", "ms", least)])
