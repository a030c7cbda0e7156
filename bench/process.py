"""Facts of the kernel about another process."""

from __future__ import annotations

import os
import time


def cpu_seconds(pid: int) -> float:
    """CPU time of all its threads, to the nanosecond (clock_getcpuclockid(3))."""
    return time.clock_gettime((~pid << 3) | 2)


def memory(pid: int) -> tuple[float, float]:
    """RSS and PSS, MiB."""
    kib = {"Rss:": 0, "Pss:": 0}
    with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as lines:
        for line in lines:
            word, _, rest = line.partition(" ")
            if word in kib:
                kib[word] = int(rest.split()[0])
    return kib["Rss:"] / 1024, kib["Pss:"] / 1024


def wakeups(pid: int) -> int:
    """How often its threads have given up the CPU of themselves: each of these was woken once after it."""
    total = 0
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/status", encoding="ascii", errors="replace") as lines:
            total += sum(int(line.split()[1]) for line in lines if line.startswith("voluntary_ctxt_switches"))
    return total
