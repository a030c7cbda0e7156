"""Answers: everybody who is asked, as one."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Protocol

from agent.checks.asking import Asking
from agent.checks.asking import Looks as Asks
from agent.checks.probes import Looks as Rests
from agent.checks.probes import Probes
from agent.core.entry.inquiry import Answer, Probe, Question
from agent.core.language.value import Absent, Scalar
from agent.core.struct import Struct


class Looks(Asks, Rests, Protocol):
    """Who looks, and so wants answers and reports."""


class Answers(Struct):
    """See `agent.scanners.reading.Answers`."""

    asking: Asking
    probes: Probes

    def answer(self, inquiry: Question) -> Answer:
        """What is known of an inquiry."""
        return self.asking.answer(inquiry)

    def verdict(self, probe: Probe, places: Iterable[str]) -> Answer:
        """What a probe says of what has these names."""
        return self.probes.verdict(probe, places)

    def field(self, probe: Probe, places: Iterable[str], field: str) -> Scalar | Absent:
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
