"""The interface to results of programs, services and probes, for readers of host facts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from agent.core.entry.query import PolledQuery, ProbeSpec, QueryResult, QueryStatus
from agent.core.language.value import Absent, Scalar


class QuerySource(Protocol):
    """The source of query results and probe reports."""

    def get_result(self, query: PolledQuery) -> QueryResult:
        """Return the result of a query. A new query runs from now on. Any thread may call this."""

    def get_health(self, probe: ProbeSpec, places: Iterable[str]) -> QueryResult:
        """Return the health that a probe reports for these locations.

        A new probe is started. Any thread may call this.
        """

    def get_field(self, probe: ProbeSpec, places: Iterable[str], field: str) -> Scalar | Absent:
        """Return the value of a field that a probe reports for these locations."""


class _FixedResult:
    """A source without queries: every result is the same."""

    def __init__(self, status: QueryStatus, reason: str) -> None:
        self._result = QueryResult(status, reason)

    def get_result(self, query: PolledQuery) -> QueryResult:
        """See `QuerySource`."""
        del query
        return self._result

    def get_health(self, probe: ProbeSpec, places: Iterable[str]) -> QueryResult:
        """See `QuerySource`."""
        del probe, places
        return self._result

    def get_field(self, probe: ProbeSpec, places: Iterable[str], field: str) -> Scalar | Absent:
        """See `QuerySource`."""
        del probe, places, field
        return Absent(self._result.reason, pending=self._result.status is QueryStatus.PENDING)


NO_AGENT = _FixedResult(QueryStatus.PENDING, "only a running agent asks")
NO_PROGRAMS = _FixedResult(QueryStatus.NOT_APPLICABLE, "no program is run here")
