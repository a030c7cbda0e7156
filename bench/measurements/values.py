"""The cost of a class of values, of one value and of a comparison, by kind of class."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Sequence

from bench.result import Line, Result
from bench.size import Size
from bench.subjects import TOP, Subject, environment

NAME = "values"
FIELDS = "; ".join(f"f{number}: int = 0" for number in range(8))
WAYS = {  # what is imported before, and one class
    "struct": ("from agent.core.struct import Struct", f"class C(Struct): {FIELDS}"),
    "named tuple": ("from typing import NamedTuple", f"class C(NamedTuple): {FIELDS}"),
    "attrs, frozen, slots": ("import attrs", f"@attrs.frozen\nclass C: {FIELDS}"),
    "dataclass, frozen, slots": (
        "from dataclasses import dataclass",
        f"@dataclass(frozen=True, slots=True)\nclass C: {FIELDS}",
    ),
}
PROGRAM = """
import timeit
{before}
print(min(timeit.repeat({one!r}, setup={before!r}, number={classes}, repeat=3)) / {classes} * 1e3)
exec({one!r})
a, b = C(1, 2, 3), C(1, 2, 3)
print(min(timeit.repeat("C(1, 2, 3)", globals=globals(), number={values}, repeat=5)) / {values} * 1e6)
print(min(timeit.repeat("a == b", globals=globals(), number={values}, repeat=5)) / {values} * 1e6)
"""


async def measure(subjects: Sequence[Subject], size: Size) -> Result:
    del subjects
    lines = []
    for way, (before, one) in WAYS.items():
        program = PROGRAM.format(before=before, one=one, classes=size.classes, values=size.values)
        done = await asyncio.to_thread(
            subprocess.run,
            [sys.executable, "-c", program],
            cwd=TOP,
            env=environment(),
            capture_output=True,
            check=True,
        )
        numbers = map(float, done.stdout.split())
        for (what, unit), number in zip((("a class", "ms"), ("a value", "µs"), ("==", "µs")), numbers, strict=True):
            lines.append(Line(NAME, f"eight fields, {way}: {what}", unit, {"agent": number}, digits=3))
    return Result(lines)
