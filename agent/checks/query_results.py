"""The results of all queries and probes as one source."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from agent.checks.probe_processes import Probes
from agent.checks.query_scheduler import QueryScheduler, QueryUser
from agent.core.entry.query import PolledQuery, ProbeSpec, QueryResult
from agent.core.language.value import Absent, Scalar
from agent.core.struct import Struct


class QueryResults(Struct):
    """The source of all results. See `agent.scanners.query_source.QuerySource`."""

    scheduler: QueryScheduler
    probes: Probes

    def get_result(self, query: PolledQuery) -> QueryResult:
        """See `QuerySource.get_result`."""
        return self.scheduler.get_result(query)

    def get_health(self, probe: ProbeSpec, places: Iterable[str]) -> QueryResult:
        """See `QuerySource.get_health`."""
        return self.probes.get_health(probe, places)

    def get_field(self, probe: ProbeSpec, places: Iterable[str], field: str) -> Scalar | Absent:
        """See `QuerySource.get_field`."""
        return self.probes.get_field(probe, places, field)

    def finish_look(self, user: QueryUser) -> None:
        """Start new queries and probes after a look, and end those without a user."""
        self.scheduler.finish_look(user)
        self.probes.finish_look(user)

    async def run(self, user: QueryUser) -> None:
        """Run queries and probes until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.scheduler.run(user))
            tasks.create_task(self.probes.run(user))
