"""Answers: everybody who is asked, as one."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Protocol

from agent.checks.probe_processes import Looks as Rests
from agent.checks.probe_processes import Probes
from agent.checks.query_scheduler import Looks as Asks
from agent.checks.query_scheduler import QueryScheduler
from agent.core.entry.query import ProbeSpec, QueryResult, Question
from agent.core.language.value import Absent, Scalar
from agent.core.struct import Struct


class Looks(Asks, Rests, Protocol):
    """Who looks, and so wants answers and reports."""


class QueryResults(Struct):
    """See `agent.scanners.host_reader.Answers`."""

    asking: QueryScheduler
    probes: Probes

    def answer(self, inquiry: Question) -> QueryResult:
        """What is known of an inquiry."""
        return self.asking.answer(inquiry)

    def verdict(self, probe: ProbeSpec, places: Iterable[str]) -> QueryResult:
        """What a probe says of what has these names."""
        return self.probes.verdict(probe, places)

    def field(self, probe: ProbeSpec, places: Iterable[str], field: str) -> Scalar | Absent:
        """What it reports as a field."""
        return self.probes.field(probe, places, field)

    def looked(self, looks: Looks) -> None:
        """A look is over."""
        self.asking.looked(looks)
        self.probes.looked(looks)

    async def run(self, looks: Looks) -> None:
        """Ask and listen, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.asking.run(looks))
            tasks.create_task(self.probes.run(looks))
