"""The size of each measurement."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Size:
    """The defaults are what docs/performance.md shows; `TINY` only shows that it all runs."""

    change_resources: int = 64
    change_devices: int = 1000  # of all resources together
    changes: int = 96
    pause: float = 0.06  # between changes: above the agent's settle time
    uevents: int = 16
    blips: int = 3
    blip: float = 0.3
    restarts: int = 5
    restart_resources: tuple[int, ...] = (1, 64)
    starts: int = 5
    start_resources: int = 16
    big: int = 10_000
    big_changes: int = 10
    allocations: int = 2000
    batch: int = 100
    memory_resources: tuple[int, ...] = (1, 16, 64, 200)
    memory_devices: int = 4  # of each resource
    idle: float = 8.0
    imports: int = 6
    classes: int = 100
    values: int = 100_000
    look_functions: int = 500
    look_nics: int = 8
    look_entries: int = 64
    looks: int = 9
    real_resources: tuple[int, ...] = (1, 16, 64)  # without any, the kubelet's device manager is not built
    real_starts: int = 3
    real_changes: int = 16
    real_pause: float = 0.3  # above the 0.2 s that two lists are apart
    real_allocations: int = 100
    settle: float = 0.7  # seconds after which what was started is taken to be at rest


TINY = Size(
    change_resources=2,
    change_devices=4,
    changes=2,
    uevents=2,
    blips=1,
    restarts=1,
    restart_resources=(1, 2),
    starts=1,
    start_resources=2,
    big=20,
    big_changes=2,
    allocations=4,
    batch=2,
    memory_resources=(1,),
    memory_devices=2,
    idle=0.2,
    imports=1,
    classes=2,
    values=10,
    look_functions=50,
    look_nics=1,
    look_entries=6,
    looks=1,
    real_resources=(),
    real_starts=1,
    real_pause=0.0,
    real_changes=2,
    real_allocations=2,
    settle=0.1,
)
