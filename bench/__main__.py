"""Run the measurements and print them. With --write also update docs/performance.md."""

from __future__ import annotations

import argparse
import asyncio
import importlib
import json
import pkgutil
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from types import ModuleType

import uvloop

import bench.measurements
from bench import facts, report
from bench.nodes import Nodes
from bench.result import Result
from bench.size import TINY, Size
from bench.subjects import Agent, BareGo, BarePython, Subject, build_go

TERMINATED = 128 + signal.SIGTERM
ORDER = (
    "change",
    "uevent",
    "blip",
    "restart",
    "start",
    "big",
    "allocate",
    "memory",
    "idle",
    "imports",
    "values",
    "look",
    "prefer",
    "real",
)


def rows() -> list[ModuleType]:
    """All measurements, in the order of the table."""
    found = [
        importlib.import_module(f"bench.measurements.{module.name}")
        for module in pkgutil.iter_modules(bench.measurements.__path__)
    ]
    return sorted(found, key=lambda row: ORDER.index(row.NAME))


async def run_measurement(row: ModuleType, subjects: Sequence[Subject], size: Size) -> Result:
    """One measurement, from servers that are started for it to all of them gone."""
    wall, cpu = time.perf_counter(), time.process_time()
    try:
        result: Result = await row.measure(subjects, size)
    finally:
        for subject in subjects:
            subject.end()
    return Result(result.lines, time.perf_counter() - wall, time.process_time() - cpu, result.notes)


async def measure(only: Sequence[str], size: Size, *, go: bool = True) -> list[Result]:
    """Run the measurements with these names, or all. SIGTERM ends them and leaves nothing behind."""
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    results = []
    with tempfile.TemporaryDirectory(prefix="bench-", dir="/tmp") as top:  # short: paths of sockets are
        nodes = Nodes(top)
        try:
            subjects: list[Subject] = [Agent(top, nodes), BarePython(top)]
            if go and (binary := build_go()):
                bare_go = BareGo(top)
                bare_go.program = (binary,)
                subjects.append(bare_go)
            for row in rows():
                if not only or row.NAME in only:
                    results.append(await run_measurement(row, subjects, size))
                    print(f"{row.NAME}: {results[-1].seconds:.0f} s", file=sys.stderr)
        finally:
            nodes.close()
    return results


def main() -> int:
    """Parse the command line."""
    parser = argparse.ArgumentParser(prog="make bench", description="Measures the agent beside bare servers.")
    parser.add_argument("only", nargs="*", metavar="NAME", help=f"one of {', '.join(ORDER)}; all without any")
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    parser.add_argument("--write", action="store_true", help="put the table into docs/performance.md")
    parser.add_argument("--tiny", action="store_true", help="only show that everything runs")
    arguments = parser.parse_args()
    if unknown := set(arguments.only) - set(ORDER):
        parser.error(f"no such measurement: {', '.join(sorted(unknown))}; there are {', '.join(ORDER)}")
    if arguments.write and arguments.only:
        parser.error("--write wants all of them")
    try:
        results = uvloop.run(measure(arguments.only, TINY if arguments.tiny else Size()))
    except asyncio.CancelledError:
        return TERMINATED
    machine = facts.machine()
    if arguments.output == "json":
        print(json.dumps(report.document(machine, results), indent=1, ensure_ascii=False))
    else:
        print(report.text(machine, results))
    if arguments.write:
        report.write(machine, results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
