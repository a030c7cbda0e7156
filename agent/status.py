"""What the agent says of itself: log lines at transitions, and the status line and heartbeat for systemd.

One line for each transition, old → new, with the reason; nothing for what stays as it is. When all resources lose or
find the kubelet at once, that is one line.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass

from agent.core.inventory.device import Health, Snapshot
from agent.core.language.printable import escape
from agent.core.lists.assemble import Assembly
from agent.core.lists.transition import STORM, Transition, transitions
from agent.core.phase import Phase
from agent.host import systemd

log = logging.getLogger("agent")


@dataclass(frozen=True, slots=True)
class ResourceState:
    """Where a resource's registration stands, and why it is not further."""

    phase: Phase
    reason: str = ""


class Status:
    """Collects what the parts report and says it once."""

    def __init__(self) -> None:
        self.resources: dict[str, ResourceState] = {}
        self.lists: Mapping[str, Snapshot] = {}
        self.notice = ""
        self._ready = False
        self._complaints: dict[str, str] = {}
        self._missing: dict[str, str] = {}
        self._kubelet_up: bool | None = None
        self._changed = asyncio.Event()
        self.told_ready = asyncio.Event()  # systemd has READY

    def add(self, resource: str) -> None:
        """A resource begins to be served."""
        self.resources[resource] = ResourceState(Phase.WAITING, "starting")
        self._stir()

    def remove(self, resource: str) -> None:
        """A resource is served no more."""
        self.resources.pop(resource, None)
        self._complaints.pop(resource, None)
        self._stir()

    def phase(self, resource: str, phase: Phase, reason: str) -> None:
        """A registration went on, or fell back."""
        old = self.resources.get(resource)
        new = ResourceState(phase, reason)
        if old is None or old == new:
            return
        self.resources[resource] = new
        if phase is Phase.STREAMING:
            count = self.lists.get(resource, Snapshot(resource)).offered
            log.info("%s: %s → streaming: %d devices", resource, old.phase.value, count)
            self._complaints.pop(resource, None)
        elif phase is Phase.WAITING and not reason.startswith("kubelet") and reason != self._complaints.get(resource):
            log.error("%s: %s → waiting: %s", resource, old.phase.value, escape(reason))
            self._complaints[resource] = reason  # said once until it streams, however often it is tried
        self._kubelet()
        self._stir()

    def published(self, before: Mapping[str, Snapshot], assembly: Assembly, *, first: bool) -> None:
        """New lists are out; the `first` of a life are no transitions."""
        self.lists = assembly.snapshots
        if not first:
            for name, after in assembly.snapshots.items():
                if (old := before.get(name, Snapshot(name))) is not after:
                    _say(list(transitions(old, after)))
        self._stir()

    def expected(self, missing: Mapping[str, str]) -> None:
        """Which resources have fewer devices than expected, with what there is; each is said once."""
        for name, said in missing.items():
            if self._missing.get(name) != said:
                log.warning("%s: %s there", name, said)
        for name in self._missing.keys() - missing.keys():
            log.info("%s: as many devices there as expected", name)
        self._missing = dict(missing)

    def ready(self) -> None:
        """Everything that should listen does."""
        self._ready = True
        self._stir()
        log.info("agent: starting → ready: %s", self.line())

    @property
    def settled(self) -> bool:
        """Whether every resource has left its first phase: it is registered, or waits for a reason that is known."""
        return all(state.reason != "starting" for state in self.resources.values())

    async def changed(self) -> None:
        """Return at the next change of anything said here."""
        await self._changed.wait()

    def say(self, notice: str) -> None:
        """Put something into the status line that stays until it is replaced."""
        self.notice = notice
        self._stir()

    def _stir(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    def line(self) -> str:
        """The status in one line, as `systemctl status` shows it."""
        total = sum(snapshot.offered for snapshot in self.lists.values())
        healthy = sum(snapshot.count(Health.HEALTHY) for snapshot in self.lists.values())
        streaming = sum(state.phase is Phase.STREAMING for state in self.resources.values())
        parts = [f"{streaming} of {len(self.resources)} resources streaming, {healthy} of {total} devices Healthy"]
        waiting = [name for name, state in self.resources.items() if state.phase is not Phase.STREAMING]
        if waiting:
            state = self.resources[waiting[0]]
            more = f" and {len(waiting) - 1} more" if len(waiting) > 1 else ""
            parts.append(f"{waiting[0]}{more} {state.phase.value}{f': {escape(state.reason)}' if state.reason else ''}")
        return "; ".join(part for part in (*parts, self.notice) if part)

    async def tell_systemd(self) -> None:
        """Keep systemd's status line and READY true, until cancelled."""
        said = ""
        while True:
            line = self.line()
            if self._ready and not self.told_ready.is_set():
                systemd.notify(READY=1, STATUS=line)
                self.told_ready.set()
            elif line != said:
                systemd.notify(STATUS=line if self._ready else f"starting: {line}")
            said = line
            await self.changed()

    def _kubelet(self) -> None:
        """Say once that the kubelet went or came, when the first resource loses it or the last has it again."""
        if not self.resources:
            return
        streaming = [state.phase is Phase.STREAMING for state in self.resources.values()]
        lost = [state for state in self.resources.values() if state.reason.startswith("kubelet")]
        if all(streaming) and self._kubelet_up is not True:
            if self._kubelet_up is False:
                log.info("kubelet: down → up: all %d resources listed again", len(streaming))
            self._kubelet_up = True
        elif lost and len(lost) == len(streaming) and self._kubelet_up is not False:
            log.warning(
                "kubelet: %s → down: %s (%d resources wait)",
                "starting" if self._kubelet_up is None else "up",
                escape(lost[0].reason.removeprefix("kubelet: ")),
                len(lost),
            )
            self._kubelet_up = False


async def heartbeat() -> None:
    """Tell systemd that the event loop is alive, as often as it wants to know; returns if it does not."""
    every = systemd.watchdog_seconds()
    while every:
        systemd.notify(WATCHDOG=1)
        await asyncio.sleep(every / 2)


def _say(changes: list[Transition]) -> None:
    if len(changes) > STORM:
        worse = sum(change.new is not Health.HEALTHY for change in changes)
        log.warning(
            "%s: %d devices changed at once: %d Healthy, %d not; the first: %s",
            changes[0].resource,
            len(changes),
            len(changes) - worse,
            worse,
            escape(str(changes[0])),
        )
        return
    for change in changes:
        level = logging.WARNING if change.new is Health.UNHEALTHY else logging.INFO
        log.log(level, "%s", escape(str(change)))
