"""Source timers: when to list a source again that sets `source.every`, in addition to events."""

from __future__ import annotations

from collections.abc import Sequence

from agent.core.entry.resource_spec import ResourceSpec, Source


class SourceTimers:
    """The next time for each source that has an interval. If entries differ, the shorter interval counts."""

    def __init__(self) -> None:
        self._due_times: dict[Source, float] = {}

    @property
    def next_at(self) -> float:
        """The first due time in monotonic seconds, or infinity if there is none."""
        return min(self._due_times.values(), default=float("inf"))

    def take_due_sources(self, specs: Sequence[ResourceSpec], current_time: float) -> frozenset[Source]:
        """Return the sources that are due now, and set the next time of each."""
        intervals: dict[Source, float] = {}
        for spec in specs:
            for source, seconds in spec.source_intervals:
                intervals[source] = min(seconds, intervals.get(source, seconds))
        self._due_times = {
            source: min(self._due_times.get(source, current_time + time), current_time + time)
            for source, time in intervals.items()
        }
        due_sources = frozenset(source for source, due_time in self._due_times.items() if due_time <= current_time)
        self._due_times.update((source, current_time + intervals[source]) for source in due_sources)
        return due_sources
