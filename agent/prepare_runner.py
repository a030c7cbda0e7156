"""Preparing: running what entries want to have been run on the machine before their gates are asked.

Each program is run in a task of its own, so that one that hangs holds up nobody but the entries that want it. Entries
that want the same command share it. What fails, or does not make its clause end, is run again: after a second, then
ever more rarely, and never because something was looked at.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping

from agent.core.entry.program import Command
from agent.core.inventory.preconditions import make_precondition_key
from agent.core.inventory.prepare_programs import PrepareRequest
from agent.core.language.safe_text import escape
from agent.host import systemd
from agent.host.program import ProgramError, run

FIRST_SECONDS, LAST_SECONDS = 1.0, 300.0  # between two runs of a program
_GRACE_SECONDS = 5  # what systemd is asked for besides

log = logging.getLogger(__name__)


class _PrepareJob:
    """A command that is or was wanted.

    names: how its entries call it. outcome: why it did not end well, or nothing; None before its first end.
    tried: how often it has ended since it was last of use. earliest: when it may be run again, by the loop's clock.
    """

    def __init__(self) -> None:
        self.names: tuple[str, ...] = ()
        self.entries: frozenset[int] = frozenset()
        self.once = False
        self.outcome: str | None = None
        self.tried = 0
        self.earliest = 0.0
        self.life: asyncio.Task[None] | None = None


class PrepareRunner:
    """Runs what is wanted.

    look: called with the keys of what may be otherwise, as a program has ended; returns when that was looked at.
    """

    def __init__(self, look_again: Callable[[frozenset[str]], Awaitable[None]]) -> None:
        self._look = look_again
        self._works: dict[Command, _PrepareJob] = {}
        self._tasks: asyncio.TaskGroup | None = None

    @property
    def outcomes(self) -> Mapping[Command, str]:
        """Why the wanted commands that have ended did not end well; nothing where they did."""
        return {
            command: work.outcome for command, work in self._works.items() if work.entries and work.outcome is not None
        }

    async def run(self) -> None:
        """Run what is wanted, until cancelled; whatever is running then is killed."""
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            try:
                for command, work in self._works.items():
                    self._begin(command, work)
                await asyncio.get_running_loop().create_future()
            finally:
                self._tasks = None

    def set_requests(self, programs: Mapping[int, Iterable[PrepareRequest]]) -> None:
        """Want what entries, by their numbers, want now, and nothing else."""
        now: dict[Command, list[tuple[int, PrepareRequest]]] = {}
        for entry, those in programs.items():
            for one in those:
                now.setdefault(one.command, []).append((entry, one))
        for command in now.keys() - self._works.keys():
            self._works[command] = _PrepareJob()
        for command, work in self._works.items():
            asked = now.get(command, [])
            if work.entries and not asked:  # it was of use, or nobody wants it: what is wanted later is wanted anew
                work.tried = 0 if work.outcome == "" else work.tried
                work.outcome = None
            work.entries = frozenset(entry for entry, _ in asked)
            work.names = tuple(sorted({one.name for _, one in asked})) or work.names
            work.once = all(one.runs_once for _, one in asked)
            self._begin(command, work)

    def _begin(self, command: Command, work: _PrepareJob) -> None:
        if self._tasks is not None and work.entries and (work.life is None or work.life.done()):
            work.life = self._tasks.create_task(self._live(command, work), name=command.argv[0])

    async def _live(self, command: Command, work: _PrepareJob) -> None:
        """Run one as long as it is wanted, at ever greater distance."""
        loop = asyncio.get_running_loop()
        while work.entries and not (work.once and work.outcome == ""):
            if (early := work.earliest - loop.time()) > 0:
                await asyncio.sleep(early)
                continue
            systemd.notify(EXTEND_TIMEOUT_USEC=int((command.timeout + _GRACE_SECONDS) * 1_000_000))
            outcome = await self._outcome(command)
            work.earliest = loop.time() + min(FIRST_SECONDS * 2.0**work.tried, LAST_SECONDS)
            work.tried = min(work.tried + 1, 16)
            if not work.entries:  # its clause has ended meanwhile
                work.tried = work.tried if outcome else 0
                return
            changed, work.outcome = outcome != work.outcome, outcome
            if changed:
                self._say(work, outcome)
            if changed or not outcome:  # only a look says whether its clause has ended: until then nothing is run again
                await self._look(frozenset(map(make_precondition_key, work.entries)))

    async def _outcome(self, command: Command) -> str:
        try:
            await run(command)
        except ProgramError as failed:
            return str(failed)
        return ""

    def _say(self, work: _PrepareJob, outcome: str) -> None:
        for name in work.names:
            if outcome:
                log.warning("prepare.%s: %s; it is tried again", name, escape(outcome))
            else:
                log.info("prepare.%s: done", name)
