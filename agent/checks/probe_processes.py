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


class _ProbeState:
    """The state of one probe.

    failure: why there are no reports. Empty while the probe reports.
    off_reason: why the probe has nothing to report on this host.
    note: the last line that was not in the protocol.
    end_reason: how the last process ended, until the next one reports.
    last_message: the last log message.
    silence_timer: expires when the probe was silent for its `timeout`.
    """

    def __init__(self) -> None:
        self.reports = ProbeReports()
        self.failure = ""
        self.off_reason = ""
        self.note = ""
        self.end_reason = ""
        self.last_message = ""
        self.silence_timer: asyncio.TimerHandle | None = None


class Probes:
    """The probes and their reports."""

    def __init__(self) -> None:
        self._states: dict[ProbeSpec, _ProbeState] = {}
        self._tasks: dict[ProbeSpec, asyncio.Task[None]] = {}
        self._ending: set[ProbeSpec] = set()
        self._new: deque[ProbeSpec] = deque()
        self._numbers = count(1)
        self._has_new_probe = asyncio.Event()

    def get_health(self, probe: ProbeSpec, locations: Iterable[str]) -> QueryResult:
        """Return the worst health that a probe reports for these locations.

        A new probe is started. Any thread may call this.
        """
        state = self._get_state(probe)
        if state is None or state.off_reason:
            return (
                QueryResult(QueryStatus.NOT_APPLICABLE, f"{probe.name} is off: {state.off_reason}")
                if state
                else PENDING_RESULT
            )
        if state.failure:
            return QueryResult(QueryStatus.UNKNOWN, f"the probe {probe.name}: {state.failure}")
        if (worst := state.reports.get_worst(locations)) is not None:
            return worst
        no_report = QueryResult(QueryStatus.UNKNOWN, f"the probe {probe.name} says nothing of it")
        return no_report if state.reports.is_complete else PENDING_RESULT

    def get_field(self, probe: ProbeSpec, locations: Iterable[str], field: str) -> Scalar | Absent:
        """Return the value of a field that a probe reports for these locations."""
        state = self._get_state(probe)
        if state is None:
            return Absent(PENDING_RESULT.reason, pending=True)
        if state.off_reason:
            return Absent(f"the probe {probe.name} is off: {state.off_reason}")
        if state.failure:
            return Absent(f"the probe {probe.name}: {state.failure}", unreadable=True)
        value = state.reports.get_field(locations, field)
        absent = Absent(f"the probe {probe.name} says no {field}", pending=not state.reports.is_complete)
        return absent if value is None else value

    def finish_look(self, user: QueryUser) -> None:
        """Start the probes that the finished look added, and end those that nothing depends on."""
        for probe, task in self._tasks.items():
            if probe not in self._ending and not user.needs_probe(probe.dirty_key):
                self._ending.add(probe)
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
                    if probe not in self._states:
                        state = self._states[probe] = _ProbeState()
                        task = self._tasks[probe] = tasks.create_task(self._keep_running(probe, state, user))
                        # Not in the task itself: a task that is cancelled before its first step runs no code.
                        task.add_done_callback(partial(self._handle_end, probe, state, user))

    def _get_state(self, probe: ProbeSpec) -> _ProbeState | None:
        state = self._states.get(probe)
        if state is None:
            self._new.append(probe)
        return state

    def _handle_end(self, probe: ProbeSpec, state: _ProbeState, user: QueryUser, _: asyncio.Task[None]) -> None:
        """Remove a probe whose task has ended. A look that still needs it adds it again."""
        if state.silence_timer is not None:
            state.silence_timer.cancel()
        del self._states[probe], self._tasks[probe]
        self._ending.discard(probe)
        user.report_change(probe.dirty_key, changed=True)

    async def _keep_running(self, probe: ProbeSpec, state: _ProbeState, user: QueryUser) -> None:
        """Run the probe again after each end, with a growing delay."""
        loop = asyncio.get_running_loop()
        backoff = RESTART
        while True:
            start_time = loop.time()
            state.reports.begin()
            state.note = ""
            reason = await self._run_once(probe, state, user)
            if loop.time() - start_time >= STEADY_SECONDS:
                backoff = backoff.reset()
            backoff = backoff.add_failure()
            wait = OFF_SECONDS if state.off_reason else backoff.compute_delay(random.random())  # noqa: S311  jitter
            state.end_reason = reason
            if not state.off_reason:
                self._log_once(probe, state, logging.WARNING, f"{reason}; starting it again")
                if state.silence_timer is None:
                    self._handle_silence(probe, state, user)
            await asyncio.sleep(wait)

    async def _run_once(self, probe: ProbeSpec, state: _ProbeState, user: QueryUser) -> str:
        """Run the probe once and return the reason of its end."""
        try:
            async with start_program(probe.argv) as child:
                reason = await self._read_reports(probe, state, user, child)
        except FileNotFoundError:
            self._set_off(probe, state, user, f"{probe.argv[0]}: no such program")
            return state.off_reason
        except OSError as error:
            return f"{probe.argv[0]}: {os.strerror(error.errno or 0)}"
        return f"{reason}: {state.note}" if state.note else reason

    async def _read_reports(self, probe: ProbeSpec, state: _ProbeState, user: QueryUser, child: Child) -> str:
        """Read reports until the probe ends, is silent for too long, or closes its output. Return the reason."""
        loop = asyncio.get_running_loop()
        has_event = asyncio.Event()
        child.set_at_end(has_event)
        deadline = loop.time() + probe.timeout
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
                return f"it was silent for {probe.timeout:g} s"
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
                    state.note = (
                        shorten(
                            escape(" ".join(line[:_SHOWN_CHARACTERS].decode("utf-8", "replace").split())),
                            _SHOWN_CHARACTERS,
                        )
                        or state.note
                    )
                    continue
                deadline = loop.time() + probe.timeout
                self._handle_line(probe, state, user, probe_line)
                complete_at = None if isinstance(probe_line, ReportComplete) else complete_at
            if complete_at is not None and loop.time() >= complete_at:
                self._finish_reports(probe, state, user)
                complete_at = None
            if data:
                await asyncio.sleep(_PAUSE_SECONDS)
                if has_ended:
                    has_event.set()
            elif has_ended:
                return ProgramResult(child.code).ending
            elif data is not None:
                return "it closed its output"

    def _handle_line(self, probe: ProbeSpec, state: _ProbeState, user: QueryUser, line: ProbeLine) -> None:
        """Apply one line of the probe."""
        loop = asyncio.get_running_loop()
        if state.silence_timer is not None:
            state.silence_timer.cancel()
        state.end_reason = ""
        state.silence_timer = (
            None
            if isinstance(line, ProbeOff)
            else loop.call_later(probe.timeout, self._handle_silence, probe, state, user)
        )
        if (state.failure or state.off_reason) and not isinstance(line, ProbeOff):
            state.failure = state.off_reason = ""
            self._log_once(probe, state, logging.INFO, "reports")
            user.report_change(probe.dirty_key, changed=True)
        match line:
            case ProbeOff(reason):
                self._set_off(probe, state, user, reason)
            case ReportComplete():
                self._finish_reports(probe, state, user)
            case ProbeAlive():
                pass
            case ReportRemoval(location):
                user.report_change(probe.make_dirty_key(location), changed=state.reports.remove(location))
            case _:
                changed = state.reports.add(line, next(self._numbers))
                if state.reports.is_full:
                    self._log_once(
                        probe, state, logging.WARNING, "it says more than can be remembered: the rest is dropped"
                    )
                user.report_change(probe.make_dirty_key(line.location), changed=changed)

    def _finish_reports(self, probe: ProbeSpec, state: _ProbeState, user: QueryUser) -> None:
        """Delete the reports of an earlier process that this one has not repeated."""
        is_first = not state.reports.is_complete
        removed_locations = state.reports.finish()
        if is_first:
            user.report_change(probe.dirty_key, changed=True)
        for location in removed_locations:
            user.report_change(probe.make_dirty_key(location), changed=True)

    def _set_off(self, probe: ProbeSpec, state: _ProbeState, user: QueryUser, reason: str) -> None:
        """Store that the probe has nothing to report on this host."""
        if state.off_reason != reason:
            state.off_reason, state.failure = reason, ""
            self._log_once(probe, state, logging.INFO, f"off: {reason}")
            user.report_change(probe.dirty_key, changed=True)

    def _handle_silence(self, probe: ProbeSpec, state: _ProbeState, user: QueryUser) -> None:
        """Set the failure after the probe was silent for its `timeout`."""
        state.silence_timer = None
        failure = state.end_reason or f"it was silent for {probe.timeout:g} s"
        if state.failure != failure and not state.off_reason:
            state.failure = failure
            user.report_change(probe.dirty_key, changed=True)

    @staticmethod
    def _log_once(probe: ProbeSpec, state: _ProbeState, level: int, message: str) -> None:
        """Log a message unless it repeats the last one of the probe."""
        if message != state.last_message:
            state.last_message = message
            log.log(level, "probe %s: %s", escape(probe.name), message)
