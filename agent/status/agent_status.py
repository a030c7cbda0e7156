"""What the agent says of itself: log lines at transitions, and the status line and heartbeat for systemd.

One line for each transition, old → new, with the reason; nothing for what stays as it is. When all resources lose or
find the kubelet at once, that is one line.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter

from agent.core.grants.held_ids import Holders
from agent.core.inventory.device import DeviceList, Health
from agent.core.language.safe_text import escape, format_count, shorten
from agent.core.lists.build_lists import DeviceLists
from agent.core.lists.numa_topology import WithheldTopology
from agent.core.lists.transitions import MAX_TRANSITION_LINES, Transition, find_transitions
from agent.core.message_id import NOTICE, MessageId, fields
from agent.core.reason import Reason, ReasonCause
from agent.core.registration_phase import Phase
from agent.core.report.agent_snapshot import STARTING, KubeletState, ResourceState, format_timestamp
from agent.core.struct import replace
from agent.counters import Counters
from agent.host import systemd
from agent.status.history import History
from agent.status.transition_log import LoggedTransition, log_transitions

REASON_LIMIT = 120  # characters of one device in the status line

log = logging.getLogger("agent")


class Status:
    """Collects what the parts report and says it once.

    Attributes:
        resources: where each resource's registration stands.
        lists: as last told.
        notice: why the last reload was refused; empty if it was not.
        without: which files are left out for their errors; empty if none are.
        doing: what is done before there is anything to say of resources.
        missing: what there is of entries that expect more.
        kubelet: as the resources together see it.
        history: the last changes of devices.
        told_ready: systemd has READY.
    """

    def __init__(
        self,
        counters: Counters | None = None,
        get_holders: Callable[[], Holders] = dict,
        list_checks: Callable[[str], frozenset[str]] = lambda _: frozenset(),
        find_evidence: Callable[[Transition, str], str] = lambda _change, _check: "",
    ) -> None:
        """`holders` says which containers hold what, as far as that is known; `checks` which ones a resource has;
        `evidence` on which line of the kernel log one rests that made a device what it is.
        """
        self._counts = counters or Counters()
        self._holders = get_holders
        self._checks = list_checks
        self._evidence = find_evidence
        self.resources: dict[str, ResourceState] = {}
        self._arriving: set[str] = set()  # those on their first way to the kubelet
        self.lists: Mapping[str, DeviceList] = {}
        self.notice = self.ignored_files = self.activity = ""
        self._down = ""  # since when the kubelet is, as the clock said
        self._ready = False
        self._complaints: dict[str, Reason] = {}
        self.missing: Mapping[str, str] = {}
        self.kubelet = KubeletState()
        self.history = History()
        self._silent: dict[str, WithheldTopology] = {}
        self._changed = asyncio.Event()
        self.ready_sent = asyncio.Event()

    def add(self, resource: str) -> None:
        """A resource begins to be served."""
        self.resources[resource] = ResourceState(Phase.WAITING, STARTING, time.monotonic())
        self._arriving.add(resource)
        self._stir()

    def remove(self, resource: str) -> None:
        """A resource is served no more."""
        self.resources.pop(resource, None)
        self._arriving.discard(resource)
        self._complaints.pop(resource, None)
        self._silent.pop(resource, None)
        self._stir()

    def set_phase(self, resource: str, phase: Phase, reason: Reason) -> None:
        """A registration went on, or fell back."""
        old = self.resources.get(resource)
        new = ResourceState(phase, reason, time.monotonic())
        if old is None or old == new:
            return
        if old.phase is phase:
            new = replace(new, since=old.since)
        self.resources[resource] = new
        if phase is not Phase.REGISTERING:
            self._arriving.discard(resource)
        if old.phase is Phase.REGISTERING is not phase:
            self._counts.registrations[resource, _result(phase, reason)] += 1
        if phase is Phase.STREAMING:
            count = self.lists.get(resource, DeviceList(resource)).id_count
            words = resource, old.phase.value, format_count(count, "device")
            log.info("%s: %s → streaming: %s", *words, extra=_moved(MessageId.STREAMING, resource, old, new))
            self._complaints.pop(resource, None)
        elif phase is Phase.WAITING and not new.waits_for_kubelet and reason != self._complaints.get(resource):
            extra = _moved(MessageId.WAITING, resource, old, new)
            log.error("%s: %s → waiting: %s", resource, old.phase.value, escape(str(reason)), extra=extra)
            self._complaints[resource] = reason  # said once until it streams, however often it is tried
        self._kubelet()
        self._stir()

    def record_lists(self, previous_lists: Mapping[str, DeviceList], lists: DeviceLists, *, is_first: bool) -> None:
        """New lists are out; the `first` of a life are no transitions."""
        self.lists = lists.lists
        if not is_first:
            for name, after in lists.lists.items():
                if (old := previous_lists.get(name, DeviceList(name))) is not after:
                    changes = list(find_transitions(old, after))
                    told = self._told(changes)
                    self.history.record(changes, time.monotonic())
                    for one in changes:
                        if one.is_blip:
                            self._counts.blips[name] += 1
                        if one.new_health is not None and one.new_health is not one.old_health:
                            self._counts.transitions[name, one.new_health.value] += 1
                    log_transitions(told, self._holders)
        self._stir()

    def _told(self, changes: Sequence[Transition]) -> list[LoggedTransition]:
        """Transitions of one resource with what is known beside them, where each is said."""
        if not changes or len(changes) > MAX_TRANSITION_LINES:
            return [*map(LoggedTransition, changes)]
        checks = self._checks(changes[0].resource)
        told = []
        for one in changes:
            since = self.history.find_change_time(one.resource, one.id)
            check = one.check if one.check in checks else ""
            why = self._evidence(one, check) if check else ""
            told.append(LoggedTransition(one, "" if since is None else _wall(since), check, why))
        return told

    def set_missing(self, missing: Mapping[str, str]) -> None:
        """Which resources have fewer devices than expected, with what there is; each is said once."""
        for name, said in missing.items():
            if self.missing.get(name) != said:
                log.warning("%s: %s there", name, said, extra=fields(MessageId.SHORT, resource=name, reason=said))
        for name in self.missing.keys() - missing.keys():
            log.info("%s: as many devices there as expected", name)
        self.missing = dict(missing)

    def set_withheld_topologies(self, topologies: Mapping[str, WithheldTopology | None]) -> None:
        """Of which of these resources no NUMA node is told although some devices have one; each is said once."""
        for name, silence in topologies.items():
            if silence is None:
                if self._silent.pop(name, None):
                    log.info("%s: the NUMA nodes of its devices are told again", name)
            elif self._silent.get(name) != silence:
                self._silent[name] = silence
                log.warning("%s: %s", name, escape(silence.text))

    def set_ready(self) -> None:
        """Everything that should listen does."""
        self._ready = True
        self._stir()
        log.log(NOTICE, "agent: starting → ready: %s", self.format_line(), extra=fields(MessageId.READY))

    @property
    def has_started(self) -> bool:
        """Whether every resource has left its first phase: it is registered, or waits for a reason that is known."""
        return all(state.reason.cause is not ReasonCause.STARTING for state in self.resources.values())

    @property
    def change_event(self) -> asyncio.Event:
        """What is set at the next change of anything said here."""
        return self._changed

    async def wait_for_change(self) -> None:
        """Return at the next change of anything said here."""
        await self._changed.wait()

    async def wait_for_arrival(self) -> None:
        """Return when every resource has come to the kubelet, or is known to wait for something."""
        while self._arriving:
            await self.wait_for_change()

    def set_notice(self, notice: str) -> None:
        """Put something into the status line that stays until it is replaced."""
        self.notice = notice
        self._stir()

    def _stir(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    def format_line(self) -> str:
        """The status in one line, as `systemctl status` shows it."""
        total = sum(snapshot.id_count for snapshot in self.lists.values())
        healthy = sum(snapshot.count_ids(Health.HEALTHY) for snapshot in self.lists.values())
        devices = f"{format_count(total, 'device')}, all Healthy"
        if healthy < total:
            devices = f"{healthy:,} of {format_count(total, 'device')} Healthy: {self._first_unhealthy()}"
        parts = (
            f"{self._served()}, {devices if total else 'no devices'}",
            self._waiting(),
            self.ignored_files,
            self.notice,
        )
        return "; ".join(filter(None, parts))

    def _served(self) -> str:
        resources = format_count(len(self.resources), "resource")
        if self.kubelet.up is False:
            return f"waiting for the kubelet since {self._down} ({escape(self.kubelet.reason)}): {resources}"
        streaming = sum(state.phase is Phase.STREAMING for state in self.resources.values())
        return f"{resources if streaming == len(self.resources) else f'{streaming} of {resources}'} streaming"

    def _waiting(self) -> str:
        """What is not streaming for a reason of its own."""
        down = self.kubelet.up is False
        waiting = [
            (name, state)
            for name, state in self.resources.items()
            if state.phase is not Phase.STREAMING and not (down and state.waits_for_kubelet)
        ]
        if not waiting:
            return ""
        name, state = waiting[0]
        more = f" and {len(waiting) - 1} more" if len(waiting) > 1 else ""
        return f"{name}{more} {state.phase.value}{f': {escape(str(state.reason))}' if state.reason else ''}"

    def _first_unhealthy(self) -> str:
        """One device that is not Healthy, and why; what a person has drained comes last."""
        found = [
            (device.reason.cause is ReasonCause.DRAIN, f"{name} {device.id}: {device.reason}")
            for name, list_ in self.lists.items()
            if list_.count_ids(Health.UNHEALTHY)
            for device in list_.devices
            if device.health is Health.UNHEALTHY
        ]
        return shorten(escape(min(found, key=itemgetter(0))[1]), REASON_LIMIT) if found else ""

    async def update_systemd(self) -> None:
        """Keep systemd's status line and READY true, until cancelled."""
        said = ""
        while True:
            line = self.format_line()
            if self._ready and not self.ready_sent.is_set():
                systemd.notify(READY=1, STATUS=line)
                self.ready_sent.set()
            elif line != said:
                systemd.notify(STATUS=line if self._ready else f"starting: {self.activity or line}")
            said = line
            await self.wait_for_change()

    def _kubelet(self) -> None:
        """Say once that the kubelet went or came, when the last resource loses it or the last has it again.

        A resource that waits for something else, say because the kubelet refuses it, has it.
        """
        if not self.resources:
            return
        streaming = sum(state.phase is Phase.STREAMING for state in self.resources.values())
        refused = sum(state.phase is Phase.WAITING and not state.waits_for_kubelet for state in self.resources.values())
        everything = len(self.resources)
        lost = [state for state in self.resources.values() if state.waits_for_kubelet]
        before, now = self.kubelet, time.monotonic()
        if streaming and before.up is not True and (before.up is None or streaming + refused == everything):
            if before.up is False:
                extra = fields(MessageId.KUBELET_UP, **{"from": "down"}, to="up", since=_wall(before.since or now))
                again = f"{streaming} of" if refused else "all"
                log.log(
                    NOTICE,
                    "kubelet: down → up: %s %s listed again",
                    again,
                    format_count(everything, "resource"),
                    extra=extra,
                )
            self.kubelet = KubeletState(up=True, since=now, restarts=before.restarts + (before.up is False))
        elif lost and len(lost) == everything and before.up is not False:
            reason = lost[0].reason.text
            was = "starting" if before.up is None else "up"
            waiting = f"{format_count(len(lost), 'resource')} wait{'s' * (len(lost) == 1)}"
            extra = fields(MessageId.KUBELET_DOWN, **{"from": was}, to="down", reason=escape(reason))
            self._down = time.strftime("%H:%M:%S")
            log.error("kubelet: %s → down: %s (%s)", was, escape(reason), waiting, extra=extra)
            self.kubelet = KubeletState(up=False, since=now, reason=reason, restarts=before.restarts)


async def send_heartbeats() -> None:
    """Tell systemd that the event loop is alive, as often as it wants to know; returns if it does not."""
    every = systemd.read_watchdog_seconds()
    while every:
        systemd.notify(WATCHDOG=1)
        await asyncio.sleep(every / 2)


def _moved(kind: MessageId, resource: str, old: ResourceState, new: ResourceState) -> dict[str, dict[str, str]]:
    """The fields of a resource that went from one state to another."""
    states = {"from": old.phase.value, "to": new.phase.value}
    return fields(kind, resource=resource, **states, reason=escape(str(new.reason)), since=_wall(old.since))


def _wall(monotonic: float) -> str:
    """A monotonic time as RFC 3339."""
    return format_timestamp(time.time() - (time.monotonic() - monotonic))


def _result(phase: Phase, reason: Reason) -> str:
    """What came of a registration."""
    if phase is Phase.STREAMING:
        return "ok"
    return "refused" if reason.cause is ReasonCause.REFUSED else "failed"
