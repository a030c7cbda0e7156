"""The processes of probes: long-running programs that report. They are watched and restarted, and looks use their
reports.

A probe runs while a look depends on it. Each probe fails alone: it can die, hang or send malformed lines. Then its
reports stay valid for its `timeout`. After that its locations have no result until it reports again.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
from collections import deque
from collections.abc import Iterable, Iterator
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
from agent.checks.query_scheduler import PENDING_RESULT, QueryUser
from agent.core.backoff import STEADY_SECONDS, Backoff
from agent.core.entry.query import ProbeSpec, QueryResult, QueryStatus
from agent.core.language.safe_text import escape, shorten
from agent.core.language.value import Absent, Scalar
from agent.host.process import Child, ProgramResult, start_program

RESTART = Backoff(1.0, 60.0)
OFF_SECONDS = 300.0  # until a probe that is off starts again
_CHUNK = 65536  # bytes of one read
_PAUSE_SECONDS = 0.02  # seconds between two reads: a probe that writes too much must wait
_SHOWN_CHARACTERS = 200  # characters of a malformed line in messages

log = logging.getLogger(__name__)


class _ProbeRun:
    """One probe, with its processes and their reports.

    failure: why there are no reports. Empty while the probe reports.
    off_reason: why the probe has nothing to report on this host.

    Args:
        numbers: the numbers of the query results.
    """

    def __init__(self, probe: ProbeSpec, user: QueryUser, numbers: Iterator[int]) -> None:
        self.reports = ProbeReports()
        self.failure = ""
        self.off_reason = ""
        self._probe = probe
        self._user = user
        self._numbers = numbers
        self._note = ""  # the last line that was not in the protocol
        self._end_reason = ""  # how the last process ended, until the next one reports
        self._last_message = ""
        self._silence_timer: asyncio.TimerHandle | None = None  # expires when the probe was silent for its `timeout`

    async def keep_running(self) -> None:
        """Run the probe again after each end, with a growing delay."""
        loop = asyncio.get_running_loop()
        backoff = RESTART
        while True:
            start_time = loop.time()
            self.reports.begin()
            self._note = ""
            reason = await self._run_once()
            if loop.time() - start_time >= STEADY_SECONDS:
                backoff = backoff.reset()
            backoff = backoff.add_failure()
            wait = OFF_SECONDS if self.off_reason else backoff.compute_delay(random.random())  # noqa: S311  jitter
            self._end_reason = reason
            if not self.off_reason:
                self._log_once(logging.WARNING, f"{reason}; starting it again")
                if self._silence_timer is None:
                    self._handle_silence()
            await asyncio.sleep(wait)

    async def _run_once(self) -> str:
        """Run the probe once and return the reason of its end."""
        try:
            async with start_program(self._probe.argv) as child:
                reason = await self._read_reports(child)
        except FileNotFoundError:
            self._set_off(f"{self._probe.argv[0]}: no such program")
            return self.off_reason
        except OSError as error:
            return f"{self._probe.argv[0]}: {os.strerror(error.errno or 0)}"
        return f"{reason}: {self._note}" if self._note else reason

    async def _read_reports(self, child: Child) -> str:
        """Read reports until the probe ends, is silent for too long, or closes its output. Return the reason."""
        loop = asyncio.get_running_loop()
        has_event = asyncio.Event()
        child.set_at_end(has_event)
        deadline = loop.time() + self._probe.timeout
        complete_at: float | None = deadline
        lines = ProbeLineParser()

        def readable() -> None:
            loop.remove_reader(child.stdout)
            has_event.set()

        while True:
            loop.add_reader(child.stdout, readable)
            try:
                async with asyncio.timeout_at(deadline):
                    await has_event.wait()
            except TimeoutError:
                return f"it was silent for {self._probe.timeout:g} s"
            finally:
                loop.remove_reader(child.stdout)
            has_event.clear()
            has_ended = child.code is not None
            try:
                data = os.read(child.stdout, _CHUNK)
            except BlockingIOError:
                data = None
            for line in lines.feed(data or b""):
                probe_line = parse_line(line)
                if probe_line is None:
                    self._note = (
                        shorten(
                            escape(" ".join(line[:_SHOWN_CHARACTERS].decode("utf-8", "replace").split())),
                            _SHOWN_CHARACTERS,
                        )
                        or self._note
                    )
                    continue
                deadline = loop.time() + self._probe.timeout
                self._handle_line(probe_line)
                complete_at = None if isinstance(probe_line, ReportComplete) else complete_at
            if complete_at is not None and loop.time() >= complete_at:
                self._finish_reports()
                complete_at = None
            if data:
                await asyncio.sleep(_PAUSE_SECONDS)
                if has_ended:
                    has_event.set()
            elif has_ended:
                return ProgramResult(child.code).ending
            elif data is not None:
                return "it closed its output"

    def _handle_line(self, line: ProbeLine) -> None:
        """Apply one line of the probe."""
        loop = asyncio.get_running_loop()
        self.cancel_timer()
        self._end_reason = ""
        self._silence_timer = (
            None if isinstance(line, ProbeOff) else loop.call_later(self._probe.timeout, self._handle_silence)
        )
        if (self.failure or self.off_reason) and not isinstance(line, ProbeOff):
            self.failure = self.off_reason = ""
            self._log_once(logging.INFO, "reports")
            self._user.report_change(self._probe.dirty_key, changed=True)
        match line:
            case ProbeOff(reason):
                self._set_off(reason)
            case ReportComplete():
                self._finish_reports()
            case ProbeAlive():
                pass
            case ReportRemoval(location):
                self._user.report_change(self._probe.make_dirty_key(location), changed=self.reports.remove(location))
            case _:
                changed = self.reports.add(line, next(self._numbers))
                if self.reports.is_full:
                    self._log_once(logging.WARNING, "it says more than can be remembered: the rest is dropped")
                self._user.report_change(self._probe.make_dirty_key(line.location), changed=changed)

    def _finish_reports(self) -> None:
        """Delete the reports of an earlier process that this one has not repeated."""
        is_first = not self.reports.is_complete
        removed_locations = self.reports.finish()
        if is_first:
            self._user.report_change(self._probe.dirty_key, changed=True)
        for location in removed_locations:
            self._user.report_change(self._probe.make_dirty_key(location), changed=True)

    def _set_off(self, reason: str) -> None:
        """Store that the probe has nothing to report on this host."""
        if self.off_reason != reason:
            self.off_reason, self.failure = reason, ""
            self._log_once(logging.INFO, f"off: {reason}")
            self._user.report_change(self._probe.dirty_key, changed=True)

    def _handle_silence(self) -> None:
        """Set the failure after the probe was silent for its `timeout`."""
        self._silence_timer = None
        failure = self._end_reason or f"it was silent for {self._probe.timeout:g} s"
        if self.failure != failure and not self.off_reason:
            self.failure = failure
            self._user.report_change(self._probe.dirty_key, changed=True)

    def _log_once(self, level: int, message: str) -> None:
        """Log a message unless it repeats the last one of the probe."""
        if message != self._last_message:
            self._last_message = message
            log.log(level, "probe %s: %s", escape(self._probe.name), message)

    def cancel_timer(self) -> None:
        """Cancel the timer of the silence."""
        if self._silence_timer is not None:
            self._silence_timer.cancel()


class Probes:
    """The probes and their reports."""

    def __init__(self) -> None:
        self._runs: dict[ProbeSpec, _ProbeRun] = {}
        self._tasks: dict[ProbeSpec, asyncio.Task[None]] = {}
        self._new: deque[ProbeSpec] = deque()
        self._numbers = count(1)
        self._has_new_probe = asyncio.Event()

    def get_health(self, probe: ProbeSpec, locations: Iterable[str]) -> QueryResult:
        """Return the worst health that a probe reports for these locations.

        A new probe is started. Any thread may call this.
        """
        run = self._get_run(probe)
        if run is None or run.off_reason:
            return (
                QueryResult(QueryStatus.NOT_APPLICABLE, f"{probe.name} is off: {run.off_reason}")
                if run
                else PENDING_RESULT
            )
        if run.failure:
            return QueryResult(QueryStatus.UNKNOWN, f"the probe {probe.name}: {run.failure}")
        if (worst := run.reports.get_worst(locations)) is not None:
            return worst
        no_report = QueryResult(QueryStatus.UNKNOWN, f"the probe {probe.name} says nothing of it")
        return no_report if run.reports.is_complete else PENDING_RESULT

    def get_field(self, probe: ProbeSpec, locations: Iterable[str], field: str) -> Scalar | Absent:
        """Return the value of a field that a probe reports for these locations."""
        run = self._get_run(probe)
        if run is None:
            return Absent(PENDING_RESULT.reason, pending=True)
        if run.off_reason:
            return Absent(f"the probe {probe.name} is off: {run.off_reason}")
        if run.failure:
            return Absent(f"the probe {probe.name}: {run.failure}", unreadable=True)
        value = run.reports.get_field(locations, field)
        absent = Absent(f"the probe {probe.name} says no {field}", pending=not run.reports.is_complete)
        return absent if value is None else value

    def finish_look(self, user: QueryUser) -> None:
        """Start the probes that the finished look added, and end those that nothing depends on."""
        for probe, task in self._tasks.items():
            if not task.cancelling() and not user.needs_probe(probe.dirty_key):
                task.cancel()
        if self._new:
            self._has_new_probe.set()

    async def run(self, user: QueryUser) -> None:
        """Run the probes until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            while True:
                await self._has_new_probe.wait()
                self._has_new_probe.clear()
                while self._new:
                    probe = self._new.popleft()
                    if probe not in self._runs:
                        run = self._runs[probe] = _ProbeRun(probe, user, self._numbers)
                        task = self._tasks[probe] = tasks.create_task(run.keep_running())
                        # Not in the task itself: a task that is cancelled before its first step runs no code.
                        task.add_done_callback(partial(self._handle_end, probe, run, user))

    def _get_run(self, probe: ProbeSpec) -> _ProbeRun | None:
        run = self._runs.get(probe)
        if run is None:
            self._new.append(probe)
        return run

    def _handle_end(self, probe: ProbeSpec, run: _ProbeRun, user: QueryUser, _: asyncio.Task[None]) -> None:
        """Remove a probe whose task has ended. A look that still needs it adds it again."""
        run.cancel_timer()
        del self._runs[probe], self._tasks[probe]
        user.report_change(probe.dirty_key, changed=True)
