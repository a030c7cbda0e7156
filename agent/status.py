"""What the agent says of itself: log lines at transitions, and the status line and heartbeat for systemd.

One line for each transition, old → new, with the reason; nothing for what stays as it is. When all resources lose or
find the kubelet at once, that is one line.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from operator import itemgetter

from agent.core.grants.holding import Holders
from agent.core.health.drained import DRAINED
from agent.core.inventory.device import Health, Snapshot, split_share
from agent.core.language.printable import counted, cut, escape
from agent.core.lists.assemble import Assembly
from agent.core.lists.topology import Silence
from agent.core.lists.transition import STORM, Transition, transitions
from agent.core.phase import REFUSED, Phase
from agent.core.report.moment import Kubelet, ResourceState
from agent.counts import Counts
from agent.history import History
from agent.host import systemd

REASON_LIMIT = 120  # characters of one device in the status line

log = logging.getLogger("agent")


class Status:
    """Collects what the parts report and says it once.

    Attributes:
        resources: where each resource's registration stands.
        lists: as last told.
        notice: why the last reload was refused; empty if it was not.
        missing: what there is of entries that expect more.
        kubelet: as the resources together see it.
        history: the last changes of devices.
        told_ready: systemd has READY.
    """

    def __init__(self, counts: Counts | None = None, holders: Callable[[], Holders] = dict) -> None:
        """`holders` says which containers hold what, as far as that is known."""
        self._counts = counts or Counts()
        self._holders = holders
        self.resources: dict[str, ResourceState] = {}
        self.lists: Mapping[str, Snapshot] = {}
        self.notice = ""
        self._ready = False
        self._complaints: dict[str, str] = {}
        self.missing: Mapping[str, str] = {}
        self.kubelet = Kubelet()
        self.history = History()
        self._silent: dict[str, Silence] = {}
        self._changed = asyncio.Event()
        self.told_ready = asyncio.Event()

    def add(self, resource: str) -> None:
        """A resource begins to be served."""
        self.resources[resource] = ResourceState(Phase.WAITING, "starting", time.monotonic())
        self._stir()

    def remove(self, resource: str) -> None:
        """A resource is served no more."""
        self.resources.pop(resource, None)
        self._complaints.pop(resource, None)
        self._stir()

    def phase(self, resource: str, phase: Phase, reason: str) -> None:
        """A registration went on, or fell back."""
        old = self.resources.get(resource)
        new = ResourceState(phase, reason, time.monotonic())
        if old is None or old == new:
            return
        if old.phase is phase:
            new = replace(new, since=old.since)
        self.resources[resource] = new
        if old.phase is Phase.REGISTERING is not phase:
            self._counts.registrations[resource, _result(phase, reason)] += 1
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
                    changes = list(transitions(old, after))
                    self.history.record(changes, time.monotonic())
                    for one in changes:
                        if one.blip:
                            self._counts.blips[name] += 1
                        if one.new is not None and one.new is not one.old:
                            self._counts.transitions[name, one.new.value] += 1
                    self._say(changes)
        self._stir()

    def expected(self, missing: Mapping[str, str]) -> None:
        """Which resources have fewer devices than expected, with what there is; each is said once."""
        for name, said in missing.items():
            if self.missing.get(name) != said:
                log.warning("%s: %s there", name, said)
        for name in self.missing.keys() - missing.keys():
            log.info("%s: as many devices there as expected", name)
        self.missing = dict(missing)

    def silenced(self, silences: Mapping[str, Silence | None]) -> None:
        """Of which of these resources no NUMA node is told although some devices have one; each is said once."""
        for name, silence in silences.items():
            if silence is None:
                if self._silent.pop(name, None):
                    log.info("%s: the NUMA nodes of its devices are told again", name)
            elif self._silent.get(name) != silence:
                self._silent[name] = silence
                log.warning("%s: %s", name, escape(silence.said))

    def ready(self) -> None:
        """Everything that should listen does."""
        self._ready = True
        self._stir()
        log.info("agent: starting → ready: %s", self.line())

    @property
    def settled(self) -> bool:
        """Whether every resource has left its first phase: it is registered, or waits for a reason that is known."""
        return all(state.reason != "starting" for state in self.resources.values())

    @property
    def change(self) -> asyncio.Event:
        """What is set at the next change of anything said here."""
        return self._changed

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
        resources = counted(len(self.resources), "resource")
        parts = [f"{streaming} of {resources} streaming, {healthy} of {counted(total, 'device')} Healthy"]
        if healthy < total:
            parts[0] += f": {self._first_unhealthy()}"
        waiting = [name for name, state in self.resources.items() if state.phase is not Phase.STREAMING]
        if waiting:
            state = self.resources[waiting[0]]
            more = f" and {len(waiting) - 1} more" if len(waiting) > 1 else ""
            parts.append(f"{waiting[0]}{more} {state.phase.value}{f': {escape(state.reason)}' if state.reason else ''}")
        return "; ".join(part for part in (*parts, self.notice) if part)

    def _first_unhealthy(self) -> str:
        """One device that is not Healthy, and why; what a person has drained comes last."""
        found = [
            (device.reason.startswith(DRAINED), f"{name} {device.id}: {device.reason}")
            for name, list_ in self.lists.items()
            if list_.count(Health.UNHEALTHY)
            for device in list_.devices
            if device.health is Health.UNHEALTHY
        ]
        return cut(escape(min(found, key=itemgetter(0))[1]), REASON_LIMIT) if found else ""

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

    def _say(self, changes: list[Transition]) -> None:
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
            worse = change.new is Health.UNHEALTHY
            held = self._held(change) if (worse or change.blip) and change.old is Health.HEALTHY else ""
            level = logging.WARNING if worse or held else logging.INFO
            log.log(level, "%s%s", escape(str(change)), escape(held))

    def _held(self, change: Transition) -> str:
        """Which pods have a device that is Healthy no more, or not what they have."""
        pods = {
            f"{holder.namespace}/{holder.pod}": None
            for (resource, id), holders in self._holders().items()  # noqa: A001  the API's own word
            if resource == change.resource and change.id in {id, split_share(id)[0][0]}
            for holder in holders
        }
        return f" (held by {', '.join(pods)})" if pods else ""

    def _kubelet(self) -> None:
        """Say once that the kubelet went or came, when the first resource loses it or the last has it again."""
        if not self.resources:
            return
        streaming = [state.phase is Phase.STREAMING for state in self.resources.values()]
        lost = [state for state in self.resources.values() if state.reason.startswith("kubelet")]
        before, now = self.kubelet, time.monotonic()
        if all(streaming) and before.up is not True:
            if before.up is False:
                log.info("kubelet: down → up: all %d resources listed again", len(streaming))
            self.kubelet = Kubelet(up=True, since=now, restarts=before.restarts + (before.up is False))
        elif lost and len(lost) == len(streaming) and before.up is not False:
            reason = lost[0].reason.removeprefix("kubelet: ")
            log.warning(
                "kubelet: %s → down: %s (%d resources wait)",
                "starting" if before.up is None else "up",
                escape(reason),
                len(lost),
            )
            self.kubelet = Kubelet(up=False, since=now, reason=reason, restarts=before.restarts)


async def heartbeat() -> None:
    """Tell systemd that the event loop is alive, as often as it wants to know; returns if it does not."""
    every = systemd.watchdog_seconds()
    while every:
        systemd.notify(WATCHDOG=1)
        await asyncio.sleep(every / 2)


def _result(phase: Phase, reason: str) -> str:
    """What came of a registration."""
    if phase is Phase.STREAMING:
        return "ok"
    return "refused" if reason.startswith(REFUSED) else "failed"
