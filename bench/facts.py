"""Facts about the machine of a measurement."""

from __future__ import annotations

import os
import platform
import time
from importlib.metadata import version


def machine() -> dict[str, str]:
    """Return the facts of this machine that a comparison needs."""
    with open("/proc/cpuinfo", encoding="utf-8") as lines:
        model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown CPU")
    with open("/proc/meminfo", encoding="ascii") as lines:
        memory = int(next(lines).split()[1]) / 1024 / 1024
    load = os.getloadavg()
    return {
        "date": time.strftime("%Y-%m-%d"),
        "machine": f"{len(os.sched_getaffinity(0))} × {model}, {memory:.0f} GiB",
        "kernel": platform.release(),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "libraries": ", ".join(f"{name} {version(name)}" for name in ("grpclib", "h2", "betterproto2", "uvloop")),
        "load": f"{load[0]:.1f} at the end, {load[2]:.1f} over 15 minutes",
    }
