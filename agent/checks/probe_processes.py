"""Probes: programs that run on and report, each watched over and started again; looks find what they reported.

A probe runs while a look rests on it. Each fails alone: when it dies, hangs or talks nonsense, what it said stays true
for as long as it may be silent, and then nothing is known of its places until it speaks again.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
from collections import deque
from collections.abc import Iterable
from functools import partial
from itertools import count

from agent.checks.probe_protocol import (
    ProbeAlive,
    ProbeLine,
    ProbeLineParser,
    ProbeOff,
    ReportComplete,
    ReportRemoval,
    parse_line,
)
from agent.checks.probe_reports import ProbeReports
from agent.checks.query_user import QueryUser
from agent.core.backoff import STEADY_SECONDS, Backoff
from agent.core.entry.query import ProbeSpec, QueryResult, QueryStatus
from agent.core.language.safe_text import escape, shorten
from agent.core.language.value import Absent, Scalar
from agent.host.process import Child, ProgramResult, start_program

RESTART = Backoff(1.0, 60.0)
OFF_SECONDS = 300.0  # until it is tried again whether there is something to report
_CHUNK = 65536  # bytes that are read at once
_BREATH = 0.02  # seconds between two of these: who floods is read slowly, and then has to wait
_SHOWN = 200  # characters of what is no line of the protocol

log = logging.getLogger(__name__)


class _Life:
    """What is known of one probe.

    down: why nothing is known; empty while it is heard of. off: why there is nothing to report.
    note: the last line that was none of the protocol. why: how the last life ended, until the next is heard of.
    """

    def __init__(self) -> None:
        self.reports = ProbeReports()
        self.down = ""
        self.off = ""
        self.note = ""
        self.why = ""
        self.said = ""
        self.fall: asyncio.TimerHandle | None = None


class Probes:
    """Knows what probes report."""

    def __init__(self) -> None:
        self._lives: dict[ProbeSpec, _Life] = {}
        self._tasks: dict[ProbeSpec, asyncio.Task[None]] = {}
        self._ending: set[ProbeSpec] = set()
        self._new: deque[ProbeSpec] = deque()
        self._numbers = count(1)
        self._stirred = asyncio.Event()

    def get_health(self, probe: ProbeSpec, places: Iterable[str]) -> QueryResult:
        """What it says of what has these names: the worst. One that was never heard of is started. Any thread."""
        life = self._life(probe)
        if life is None or life.off:
            return QueryResult(QueryStatus.NOT_APPLICABLE, f"{probe.name} is off: {life.off}") if life else _AWAITED
        if life.down:
            return QueryResult(QueryStatus.UNKNOWN, f"the probe {probe.name}: {life.down}")
        if (worst := life.reports.get_worst(places)) is not None:
            return worst
        nothing = QueryResult(QueryStatus.UNKNOWN, f"the probe {probe.name} says nothing of it")
        return nothing if life.reports.complete else _AWAITED

    def get_field(self, probe: ProbeSpec, places: Iterable[str], field: str) -> Scalar | Absent:
        """What it reports as a field."""
        life = self._life(probe)
        if life is None:
            return Absent(_AWAITED.reason, pending=True)
        if life.off:
            return Absent(f"the probe {probe.name} is off: {life.off}")
        if life.down:
            return Absent(f"the probe {probe.name}: {life.down}", unreadable=True)
        found = life.reports.get_field(places, field)
        absent = Absent(f"the probe {probe.name} says no {field}", pending=not life.reports.complete)
        return absent if found is None else found

    def finish_look(self, looks: QueryUser) -> None:
        """A look is over: have what it asked for the first time started, and end what nothing rests on."""
        for probe, task in self._tasks.items():
            if probe not in self._ending and not looks.needs_probe(probe.dirty_key):
                self._ending.add(probe)
                task.cancel()
        if self._new:
            self._stirred.set()

    async def run(self, looks: QueryUser) -> None:
        """Watch over them, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            while True:
                await self._stirred.wait()
                self._stirred.clear()
                while self._new:
                    probe = self._new.popleft()
                    if probe not in self._lives:
                        life = self._lives[probe] = _Life()
                        task = self._tasks[probe] = tasks.create_task(self._watched(probe, life, looks))
                        # Not in the task: one that is cancelled before its first step does nothing at all.
                        task.add_done_callback(partial(self._ended, probe, life, looks))

    def _life(self, probe: ProbeSpec) -> _Life | None:
        life = self._lives.get(probe)
        if life is None:
            self._new.append(probe)
        return life

    def _ended(self, probe: ProbeSpec, life: _Life, looks: QueryUser, _: asyncio.Task[None]) -> None:
        """It is watched no more; who wants it by now asks again."""
        if life.fall is not None:
            life.fall.cancel()
        del self._lives[probe], self._tasks[probe]
        self._ending.discard(probe)
        looks.report_change(probe.dirty_key, changed=True)

    async def _watched(self, probe: ProbeSpec, life: _Life, looks: QueryUser) -> None:
        """Have it run, again and again."""
        loop = asyncio.get_running_loop()
        backoff = RESTART
        while True:
            began = loop.time()
            life.reports.begin()
            life.note = ""
            why = await self._one(probe, life, looks)
            if loop.time() - began >= STEADY_SECONDS:
                backoff = backoff.reset()
            backoff = backoff.failed()
            wait = OFF_SECONDS if life.off else backoff.seconds(random.random())  # noqa: S311  jitter
            life.why = why
            if not life.off:
                self._say(probe, life, logging.WARNING, f"{why}; starting it again")
                if life.fall is None:
                    self._fallen(probe, life, looks)
            await asyncio.sleep(wait)

    async def _one(self, probe: ProbeSpec, life: _Life, looks: QueryUser) -> str:
        """Have it run once; why it runs no more."""
        try:
            async with start_program(probe.argv) as child:
                why = await self._heard(probe, life, looks, child)
        except FileNotFoundError:
            self._off(probe, life, looks, f"{probe.argv[0]}: no such program")
            return life.off
        except OSError as error:
            return f"{probe.argv[0]}: {os.strerror(error.errno or 0)}"
        return f"{why}: {life.note}" if life.note else why

    async def _heard(self, probe: ProbeSpec, life: _Life, looks: QueryUser, child: Child) -> str:
        """Listen until it ends, is silent for too long, or closes its output; which of these."""
        loop = asyncio.get_running_loop()
        stirred = asyncio.Event()
        child.set_at_end(stirred)
        until = loop.time() + probe.timeout
        complete_at: float | None = until
        lines = ProbeLineParser()

        def readable() -> None:
            loop.remove_reader(child.stdout)
            stirred.set()

        while True:
            loop.add_reader(child.stdout, readable)
            try:
                async with asyncio.timeout_at(until):
                    await stirred.wait()
            except TimeoutError:
                return f"it was silent for {probe.timeout:g} s"
            finally:
                loop.remove_reader(child.stdout)
            stirred.clear()
            over = child.code is not None
            try:
                data = os.read(child.stdout, _CHUNK)
            except BlockingIOError:
                data = None
            for line in lines.feed(data or b""):
                said = parse_line(line)
                if said is None:
                    life.note = (
                        shorten(escape(" ".join(line[:_SHOWN].decode("utf-8", "replace").split())), _SHOWN) or life.note
                    )
                    continue
                until = loop.time() + probe.timeout
                self._take(probe, life, looks, said)
                complete_at = None if isinstance(said, ReportComplete) else complete_at
            if complete_at is not None and loop.time() >= complete_at:
                self._complete(probe, life, looks)
                complete_at = None
            if data:
                await asyncio.sleep(_BREATH)
                if over:
                    stirred.set()
            elif over:
                return ProgramResult(child.code).ending
            elif data is not None:
                return "it closed its output"

    def _take(self, probe: ProbeSpec, life: _Life, looks: QueryUser, line: ProbeLine) -> None:
        """What a line changes."""
        loop = asyncio.get_running_loop()
        if life.fall is not None:
            life.fall.cancel()
        life.why = ""
        life.fall = (
            None if isinstance(line, ProbeOff) else loop.call_later(probe.timeout, self._fallen, probe, life, looks)
        )
        if (life.down or life.off) and not isinstance(line, ProbeOff):
            life.down = life.off = ""
            self._say(probe, life, logging.INFO, "reports")
            looks.report_change(probe.dirty_key, changed=True)
        match line:
            case ProbeOff(reason):
                self._off(probe, life, looks, reason)
            case ReportComplete():
                self._complete(probe, life, looks)
            case ProbeAlive():
                pass
            case ReportRemoval(place):
                looks.report_change(probe.make_dirty_key(place), changed=life.reports.remove(place))
            case _:
                changed = life.reports.add(line, next(self._numbers))
                if life.reports.full:
                    self._say(probe, life, logging.WARNING, "it says more than can be remembered: the rest is dropped")
                looks.report_change(probe.make_dirty_key(line.location), changed=changed)

    def _complete(self, probe: ProbeSpec, life: _Life, looks: QueryUser) -> None:
        """Forget what an earlier life said and this one has not."""
        first = not life.reports.complete
        gone = life.reports.finish()
        if first:
            looks.report_change(probe.dirty_key, changed=True)
        for place in gone:
            looks.report_change(probe.make_dirty_key(place), changed=True)

    def _off(self, probe: ProbeSpec, life: _Life, looks: QueryUser, reason: str) -> None:
        """There is nothing to report on this host."""
        if life.off != reason:
            life.off, life.down = reason, ""
            self._say(probe, life, logging.INFO, f"off: {reason}")
            looks.report_change(probe.dirty_key, changed=True)

    def _fallen(self, probe: ProbeSpec, life: _Life, looks: QueryUser) -> None:
        """Nothing was heard of it for as long as it may be silent."""
        life.fall = None
        down = life.why or f"it was silent for {probe.timeout:g} s"
        if life.down != down and not life.off:
            life.down = down
            looks.report_change(probe.dirty_key, changed=True)

    @staticmethod
    def _say(probe: ProbeSpec, life: _Life, level: int, what: str) -> None:
        """Say it in the log, once."""
        if what != life.said:
            life.said = what
            log.log(level, "probe %s: %s", escape(probe.name), what)


_AWAITED = QueryResult(QueryStatus.PENDING, "no answer yet")
