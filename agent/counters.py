"""Counters since the start of the agent. Their number is bounded by the number of resources."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping

from agent.core.report.counter_values import CounterValues, Distribution

CHANGE_BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
CALL_BOUNDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 2.5)
METHODS = ("Allocate", "GetPreferredAllocation")


class Histogram:
    """A distribution of measured values."""

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def observe(self, value: float) -> None:
        """Add one value."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def build_distribution(self) -> Distribution:
        """Return a frozen copy."""
        return Distribution(self._bounds, tuple(self._counts), self._sum)


class Counters:
    """All counters. `CounterValues` documents them."""

    def __init__(self) -> None:
        self.transitions: Counter[tuple[str, str]] = Counter()
        self.registrations: Counter[tuple[str, str]] = Counter()
        self.allocations: Counter[tuple[str, str]] = Counter()
        self.sent_lists: Counter[str] = Counter()
        self.blips: Counter[str] = Counter()
        self.events: Counter[str] = Counter()  # by source
        self.overruns: Counter[str] = Counter()
        self.event_sources_up: dict[str, bool] = {}  # whether the source works
        self.list_bytes: dict[str, int] = {}
        self.change_times = Histogram(CHANGE_BOUNDS)
        self.look_times = Histogram(CHANGE_BOUNDS)
        self.call_times = {method: Histogram(CALL_BOUNDS) for method in METHODS}

    def record_list(self, resource: str, size: int) -> None:
        """Count one sent list, with its size in bytes."""
        self.sent_lists[resource] += 1
        self.list_bytes[resource] = size

    def forget(self, resource: str) -> None:
        """Drop the counters of a resource that is no longer served."""
        for counter in (self.transitions, self.registrations, self.allocations):
            for key in [key for key in counter if key[0] == resource]:
                del counter[key]
        self.sent_lists.pop(resource, None)
        self.blips.pop(resource, None)
        self.list_bytes.pop(resource, None)

    def build_values(self, checks: Mapping[tuple[str, str], int] | None = None) -> CounterValues:
        """Return a frozen copy of all counters. Add the check results, which the tracker counts."""
        return CounterValues(
            dict(self.transitions),
            dict(self.registrations),
            dict(self.allocations),
            dict(self.sent_lists),
            dict(self.list_bytes),
            dict(self.events),
            self.change_times.build_distribution(),
            self.look_times.build_distribution(),
            {method: histogram.build_distribution() for method, histogram in self.call_times.items()},
            dict(checks or {}),
            dict(self.overruns),
            dict(self.event_sources_up),
            dict(self.blips),
        )
