"""Answers: everybody who is asked, as one."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from agent.checks.probe_processes import Probes
from agent.checks.query_scheduler import QueryScheduler
from agent.checks.query_user import QueryUser
from agent.core.entry.query import PolledQuery, ProbeSpec, QueryResult
from agent.core.language.value import Absent, Scalar
from agent.core.struct import Struct


class QueryResults(Struct):
    """See `agent.scanners.host_reader.Answers`."""

    scheduler: QueryScheduler
    probes: Probes

    def get_result(self, query: PolledQuery) -> QueryResult:
        """What is known of an inquiry."""
        return self.scheduler.get_result(query)

    def get_health(self, probe: ProbeSpec, places: Iterable[str]) -> QueryResult:
        """What a probe says of what has these names."""
        return self.probes.get_health(probe, places)

    def get_field(self, probe: ProbeSpec, places: Iterable[str], field: str) -> Scalar | Absent:
        """What it reports as a field."""
        return self.probes.get_field(probe, places, field)

    def finish_look(self, user: QueryUser) -> None:
        """A look is over."""
        self.scheduler.finish_look(user)
        self.probes.finish_look(user)

    async def run(self, user: QueryUser) -> None:
        """Ask and listen, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.scheduler.run(user))
            tasks.create_task(self.probes.run(user))
