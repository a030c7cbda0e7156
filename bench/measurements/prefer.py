"""The CPU time of a preferred allocation, with and without the preparation for the list."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence

from agent.core.entry.prefer import DistanceRule, PreferRule, Scores, WordRule
from agent.core.grants.prefer import NO_LIMIT, ChoicePool, prefer
from agent.core.inventory.affinity import Affinity, LinkDistances, PciePath
from agent.core.inventory.device import Device, DeviceList, Health
from agent.core.language.value import ValueType
from bench.result import Line, Result
from bench.size import Size
from bench.subjects import Agent, Subject

NAME = "prefer"
BUDGET = 10.0  # ms: no pod on the node starts while a choice is made

_LINKS = DistanceRule(Scores("links", "", "number", ValueType.INT))


async def measure(subjects: Sequence[Subject], size: Size) -> Result:
    del subjects
    chance = random.Random(1)  # the same in each run
    lines: list[Line] = []

    def add(what: str, work: Callable[[], object], *, budget: float | None = BUDGET) -> None:
        value = min(_cpu(work) for _ in range(size.looks))
        lines.append(Line(NAME, f"a choice, {what}: CPU, least", "ms", {Agent.name: value}, budget, digits=1))

    gpus = _stock((_LINKS, WordRule("packed", "board"), WordRule("same", "numa")), _gpus(16, chance))
    add("8 of 16, links between all, all ways gone through", lambda: _choose(gpus, 8))
    many = _stock((_LINKS,), _gpus(64, chance))
    add("8 of 64, links between all", lambda: _choose(many, 8))
    add("63 of 64, links between all", lambda: _choose(many, 63))
    add("32 of 64, links between all, 16 of them forced", lambda: _choose(many, 32, many.ids[::4]))
    many_functions = 2 * max(size.look_functions, 8)
    functions = _stock((WordRule("packed", "pf"), WordRule("same", "numa"), DistanceRule()), _functions(many_functions))
    add(f"1 of {many_functions} functions", lambda: _choose(functions, 1))
    add(f"16 of {many_functions} functions", lambda: _choose(functions, 16))
    most = many_functions - 1
    add(f"{most} of {many_functions} functions", lambda: _choose(functions, most))
    apart = _stock(
        (WordRule("packed", "pf"), WordRule("same", "numa"), DistanceRule()),
        _functions(many_functions, each=1, nodes=64),
    )
    add(f"16 of {many_functions} functions, each of an adapter of its own, on 64 nodes", lambda: _choose(apart, 16))
    half = many_functions // 2
    add(f"{half} of these, half of them forced", lambda: _choose(apart, half, apart.ids[::4]))
    shares = _stock(
        (WordRule("same", "numa"), WordRule("balanced", "name")), _functions(max(1, size.big // 100)), shares=100
    )
    add(f"1 of {len(shares.ids)} shares", lambda: _choose(shares, 1))
    add(
        f"1 of {len(shares.ids)} shares, the first of a list",
        lambda: _choose(ChoicePool(shares.device_list, shares.rules, {}), 1),
        budget=None,
    )
    return Result(lines)


def _cpu(work: Callable[[], object]) -> float:
    begun = time.process_time()
    work()
    return (time.process_time() - begun) * 1000


def _choose(stock: ChoicePool, count: int, forced: Sequence[str] = ()) -> None:
    if len(prefer(stock.ids, forced, count, NO_LIMIT, stock)) != count:
        raise RuntimeError("a request that can be satisfied was not")


def _stock(
    rules: Sequence[PreferRule], traits: Mapping[str, tuple[Affinity, ...]], shares: int | None = None
) -> ChoicePool:
    devices = tuple(Device(name, name, name, Health.HEALTHY, shares=shares) for name in traits)
    return ChoicePool(DeviceList("bench.example/r", devices), rules, traits)


def _gpus(count: int, chance: random.Random) -> dict[str, tuple[Affinity, ...]]:
    """GPUs, each with a link of its own length to each other."""
    far = {(one, other): chance.randrange(1, 99) for one in range(count) for other in range(one)}
    ends = [
        LinkDistances(n, {other: far[max(n, other), min(n, other)] for other in range(count) if other != n})
        for n in range(count)
    ]
    return {f"g{n:02}": (ends[n], n // 4, n // 8) for n in range(count)}


def _functions(count: int, each: int = 32, nodes: int = 2) -> dict[str, tuple[Affinity, ...]]:
    """Virtual functions of adapters, so many of each, on some nodes."""
    found: dict[str, tuple[Affinity, ...]] = {}
    for n in range(count):
        pf, numa = n // each, n // each % nodes
        path = (f"pci{pf:04x}:00", f"{pf:04x}:00:00.0", f"{pf:04x}:01:00.{n % 8}")
        found[f"v{n:05}"] = (f"pf{pf}", numa, PciePath(path, (numa,)))
    return found
