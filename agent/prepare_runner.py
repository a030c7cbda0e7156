"""The runner of `prepare` programs, which entries need before their preconditions are evaluated.

Each program runs in a task of its own, so a hanging program delays only its entries. Entries with the same command
share one run. If a program fails, or its precondition still fails after the run, the runner repeats the program. The
pause starts at one second and doubles. A look never starts a program again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping

from agent.core.entry.program import Command
from agent.core.inventory.preconditions import PrepareRequest, make_precondition_key
from agent.core.language.safe_text import escape
from agent.host import systemd
from agent.host.program import ProgramError, run

FIRST_SECONDS, LAST_SECONDS = 1.0, 300.0  # between two runs of a program
_GRACE_SECONDS = 5  # added to the time that the agent requests from systemd

log = logging.getLogger(__name__)


class _PrepareJob:
    """A command that an entry requests, or requested before.

    names: the names in the entries. outcome: the failure, or an empty string; None before the first end. attempts: runs
    since the last useful one. earliest_start: when the next run may start, by the clock of the loop.
    """

    def __init__(self) -> None:
        self.names: tuple[str, ...] = ()
        self.entries: frozenset[int] = frozenset()
        self.runs_once = False
        self.outcome: str | None = None
        self.attempts = 0
        self.earliest_start = 0.0
        self.task: asyncio.Task[None] | None = None


class PrepareRunner:
    """The runner of the requested programs.

    look_again: called with the dirty keys after a program has ended. It returns after the next look.
    """

    def __init__(self, look_again: Callable[[frozenset[str]], Awaitable[None]]) -> None:
        self._look_again = look_again
        self._jobs: dict[Command, _PrepareJob] = {}
        self._tasks: asyncio.TaskGroup | None = None

    @property
    def outcomes(self) -> Mapping[Command, str]:
        """Return the failure of each requested command that has ended, or an empty string after success."""
        return {command: job.outcome for command, job in self._jobs.items() if job.entries and job.outcome is not None}

    async def run(self) -> None:
        """Run the requested programs until cancelled. Then kill the running ones."""
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            try:
                for command, job in self._jobs.items():
                    self._start_job(command, job)
                await asyncio.get_running_loop().create_future()
            finally:
                self._tasks = None

    def set_requests(self, programs: Mapping[int, Iterable[PrepareRequest]]) -> None:
        """Replace the requests by these, given by the numbers of the entries."""
        requests_by_command: dict[Command, list[tuple[int, PrepareRequest]]] = {}
        for entry, requests in programs.items():
            for request in requests:
                requests_by_command.setdefault(request.command, []).append((entry, request))
        for command in requests_by_command.keys() - self._jobs.keys():
            self._jobs[command] = _PrepareJob()
        for command, job in self._jobs.items():
            entry_requests = requests_by_command.get(command, [])
            if (
                job.entries and not entry_requests
            ):  # it was of use, or nobody wants it: what is wanted later is wanted anew
                job.attempts = 0 if job.outcome == "" else job.attempts
                job.outcome = None
            job.entries = frozenset(entry for entry, _ in entry_requests)
            job.names = tuple(sorted({request.name for _, request in entry_requests})) or job.names
            job.runs_once = all(request.runs_once for _, request in entry_requests)
            self._start_job(command, job)

    def _start_job(self, command: Command, job: _PrepareJob) -> None:
        if self._tasks is not None and job.entries and (job.task is None or job.task.done()):
            job.task = self._tasks.create_task(self._run_job(command, job), name=command.argv[0])

    async def _run_job(self, command: Command, job: _PrepareJob) -> None:
        """Run one command with growing pauses, while an entry requests it."""
        loop = asyncio.get_running_loop()
        while job.entries and not (job.runs_once and job.outcome == ""):
            if (wait_s := job.earliest_start - loop.time()) > 0:
                await asyncio.sleep(wait_s)
                continue
            systemd.notify(EXTEND_TIMEOUT_USEC=int((command.timeout + _GRACE_SECONDS) * 1_000_000))
            outcome = await self._run_command(command)
            job.earliest_start = loop.time() + min(FIRST_SECONDS * 2.0**job.attempts, LAST_SECONDS)
            job.attempts = min(job.attempts + 1, 16)
            if not job.entries:  # its clause has ended meanwhile
                job.attempts = job.attempts if outcome else 0
                return
            is_changed, job.outcome = outcome != job.outcome, outcome
            if is_changed:
                self._log_outcome(job, outcome)
            if (
                is_changed or not outcome
            ):  # only a look says whether its clause has ended: until then nothing is run again
                await self._look_again(frozenset(map(make_precondition_key, job.entries)))

    async def _run_command(self, command: Command) -> str:
        try:
            await run(command)
        except ProgramError as error:
            return str(error)
        return ""

    def _log_outcome(self, job: _PrepareJob, outcome: str) -> None:
        for name in job.names:
            if outcome:
                log.warning("prepare.%s: %s. The agent runs it again", name, escape(outcome))
            else:
                log.info("prepare.%s: done", name)
