"""Rounds: when a source is looked at again that says how often (`source.every`), besides what events say."""

from __future__ import annotations

from collections.abc import Sequence

from agent.core.entry.resource_spec import ResourceSpec, Source


class SourceTimers:
    """The next time of each source that has one; of entries that differ about one source the more frequent counts."""

    def __init__(self) -> None:
        self._at: dict[Source, float] = {}

    @property
    def next_at(self) -> float:
        """When the first of them is due; infinite if none is."""
        return min(self._at.values(), default=float("inf"))

    def take_due_sources(self, specs: Sequence[ResourceSpec], current_time: float) -> frozenset[Source]:
        """The sources that are to be looked at now; each is then put off by its time."""
        every: dict[Source, float] = {}
        for spec in specs:
            for source, seconds in spec.source_intervals:
                every[source] = min(seconds, every.get(source, seconds))
        self._at = {
            source: min(self._at.get(source, current_time + time), current_time + time)
            for source, time in every.items()
        }
        due = frozenset(source for source, at in self._at.items() if at <= current_time)
        self._at.update((source, current_time + every[source]) for source in due)
        return due
