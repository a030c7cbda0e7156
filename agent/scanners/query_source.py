"""Answers: what programs, services and probes have told, for whoever reads facts of host devices."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from agent.core.entry.query import PolledQuery, ProbeSpec, QueryResult, QueryStatus
from agent.core.language.value import Absent, Scalar


class QuerySource(Protocol):
    """Who knows what programs, services and probes have told."""

    def get_result(self, query: PolledQuery) -> QueryResult:
        """What is known of an inquiry. One that was never heard of is asked from now on. Called in any thread."""

    def get_health(self, probe: ProbeSpec, places: Iterable[str]) -> QueryResult:
        """What a probe says of what has these names. One that was never heard of is started. Called in any thread."""

    def get_field(self, probe: ProbeSpec, places: Iterable[str], field: str) -> Scalar | Absent:
        """What it reports as a field."""


class _FixedResult:
    """Where nobody asks: as if all of them gave this answer."""

    def __init__(self, status: QueryStatus, reason: str) -> None:
        self._result = QueryResult(status, reason)

    def get_result(self, query: PolledQuery) -> QueryResult:
        """See `Answers`."""
        del query
        return self._result

    def get_health(self, probe: ProbeSpec, places: Iterable[str]) -> QueryResult:
        """See `Answers`."""
        del probe, places
        return self._result

    def get_field(self, probe: ProbeSpec, places: Iterable[str], field: str) -> Scalar | Absent:
        """See `Answers`."""
        del probe, places, field
        return Absent(self._result.reason, pending=self._result.status is QueryStatus.PENDING)


NO_AGENT = _FixedResult(QueryStatus.PENDING, "only a running agent asks")
NO_PROGRAMS = _FixedResult(QueryStatus.NOT_APPLICABLE, "no program is run here")
