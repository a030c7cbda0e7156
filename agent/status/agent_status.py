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
        self._counters = counters or Counters()
        self._get_holders = get_holders
        self._list_checks = list_checks
        self._find_evidence = find_evidence
        self.resources: dict[str, ResourceState] = {}
        self._arriving_resources: set[str] = set()  # those on their first way to the kubelet
        self.lists: Mapping[str, DeviceList] = {}
        self.notice = self.ignored_files = self.activity = ""
        self._down_since = ""  # since when the kubelet is, as the clock said
        self._is_ready = False
        self._complaints: dict[str, Reason] = {}
        self.missing: Mapping[str, str] = {}
        self.kubelet = KubeletState()
        self.history = History()
        self._withheld_topologies: dict[str, WithheldTopology] = {}
        self._change_event = asyncio.Event()
        self.ready_sent = asyncio.Event()

    def add(self, resource: str) -> None:
        """A resource begins to be served."""
        self.resources[resource] = ResourceState(Phase.WAITING, STARTING, time.monotonic())
        self._arriving_resources.add(resource)
        self._notify_waiters()

    def remove(self, resource: str) -> None:
        """A resource is served no more."""
        self.resources.pop(resource, None)
        self._arriving_resources.discard(resource)
        self._complaints.pop(resource, None)
        self._withheld_topologies.pop(resource, None)
        self._notify_waiters()

    def set_phase(self, resource: str, phase: Phase, reason: Reason) -> None:
        """A registration went on, or fell back."""
        previous_state = self.resources.get(resource)
        new = ResourceState(phase, reason, time.monotonic())
        if previous_state is None or previous_state == new:
            return
        if previous_state.phase is phase:
            new = replace(new, since=previous_state.since)
        self.resources[resource] = new
        if phase is not Phase.REGISTERING:
            self._arriving_resources.discard(resource)
        if previous_state.phase is Phase.REGISTERING is not phase:
            self._counters.registrations[resource, _name_result(phase, reason)] += 1
        if phase is Phase.STREAMING:
            count = self.lists.get(resource, DeviceList(resource)).id_count
            words = resource, previous_state.phase.value, format_count(count, "device")
            log.info(
                "%s: %s → streaming: %s",
                *words,
                extra=_build_phase_fields(MessageId.STREAMING, resource, previous_state, new),
            )
            self._complaints.pop(resource, None)
        elif phase is Phase.WAITING and not new.waits_for_kubelet and reason != self._complaints.get(resource):
            extra = _build_phase_fields(MessageId.WAITING, resource, previous_state, new)
            log.error("%s: %s → waiting: %s", resource, previous_state.phase.value, escape(str(reason)), extra=extra)
            self._complaints[resource] = reason  # said once until it streams, however often it is tried
        self._update_kubelet()
        self._notify_waiters()

    def record_lists(self, previous_lists: Mapping[str, DeviceList], lists: DeviceLists, *, is_first: bool) -> None:
        """New lists are out; the `first` of a life are no transitions."""
        self.lists = lists.lists
        if not is_first:
            for name, current_list in lists.lists.items():
                if (previous_list := previous_lists.get(name, DeviceList(name))) is not current_list:
                    changes = list(find_transitions(previous_list, current_list))
                    logged_transitions = self._add_context(changes)
                    self.history.record(changes, time.monotonic())
                    for transition in changes:
                        if transition.is_blip:
                            self._counters.blips[name] += 1
                        if transition.new_health is not None and transition.new_health is not transition.old_health:
                            self._counters.transitions[name, transition.new_health.value] += 1
                    log_transitions(logged_transitions, self._get_holders)
        self._notify_waiters()

    def _add_context(self, changes: Sequence[Transition]) -> list[LoggedTransition]:
        """Transitions of one resource with what is known beside them, where each is said."""
        if not changes or len(changes) > MAX_TRANSITION_LINES:
            return [*map(LoggedTransition, changes)]
        checks = self._list_checks(changes[0].resource)
        logged_transitions = []
        for change in changes:
            since = self.history.find_change_time(change.resource, change.id)
            check = change.check if change.check in checks else ""
            evidence = self._find_evidence(change, check) if check else ""
            logged_transitions.append(
                LoggedTransition(change, "" if since is None else _format_wall_time(since), check, evidence)
            )
        return logged_transitions

    def set_missing(self, missing: Mapping[str, str]) -> None:
        """Which resources have fewer devices than expected, with what there is; each is said once."""
        for name, text in missing.items():
            if self.missing.get(name) != text:
                log.warning("%s: %s there", name, text, extra=fields(MessageId.SHORT, resource=name, reason=text))
        for name in self.missing.keys() - missing.keys():
            log.info("%s: as many devices there as expected", name)
        self.missing = dict(missing)

    def set_withheld_topologies(self, topologies: Mapping[str, WithheldTopology | None]) -> None:
        """Of which of these resources no NUMA node is told although some devices have one; each is said once."""
        for name, topology in topologies.items():
            if topology is None:
                if self._withheld_topologies.pop(name, None):
                    log.info("%s: the NUMA nodes of its devices are told again", name)
            elif self._withheld_topologies.get(name) != topology:
                self._withheld_topologies[name] = topology
                log.warning("%s: %s", name, escape(topology.text))

    def set_ready(self) -> None:
        """Everything that should listen does."""
        self._is_ready = True
        self._notify_waiters()
        log.log(NOTICE, "agent: starting → ready: %s", self.format_line(), extra=fields(MessageId.READY))

    @property
    def has_started(self) -> bool:
        """Whether every resource has left its first phase: it is registered, or waits for a reason that is known."""
        return all(state.reason.cause is not ReasonCause.STARTING for state in self.resources.values())

    @property
    def change_event(self) -> asyncio.Event:
        """What is set at the next change of anything said here."""
        return self._change_event

    async def wait_for_change(self) -> None:
        """Return at the next change of anything said here."""
        await self._change_event.wait()

    async def wait_for_arrival(self) -> None:
        """Return when every resource has come to the kubelet, or is known to wait for something."""
        while self._arriving_resources:
            await self.wait_for_change()

    def set_notice(self, notice: str) -> None:
        """Put something into the status line that stays until it is replaced."""
        self.notice = notice
        self._notify_waiters()

    def _notify_waiters(self) -> None:
        self._change_event.set()
        self._change_event = asyncio.Event()

    def format_line(self) -> str:
        """The status in one line, as `systemctl status` shows it."""
        total = sum(snapshot.id_count for snapshot in self.lists.values())
        healthy = sum(snapshot.count_ids(Health.HEALTHY) for snapshot in self.lists.values())
        devices = f"{format_count(total, 'device')}, all Healthy"
        if healthy < total:
            devices = f"{healthy:,} of {format_count(total, 'device')} Healthy: {self._format_unhealthy()}"
        parts = (
            f"{self._format_resources()}, {devices if total else 'no devices'}",
            self._format_waiting(),
            self.ignored_files,
            self.notice,
        )
        return "; ".join(filter(None, parts))

    def _format_resources(self) -> str:
        resources = format_count(len(self.resources), "resource")
        if self.kubelet.up is False:
            return f"waiting for the kubelet since {self._down_since} ({escape(self.kubelet.reason)}): {resources}"
        streaming = sum(state.phase is Phase.STREAMING for state in self.resources.values())
        return f"{resources if streaming == len(self.resources) else f'{streaming} of {resources}'} streaming"

    def _format_waiting(self) -> str:
        """What is not streaming for a reason of its own."""
        is_down = self.kubelet.up is False
        waiting = [
            (name, state)
            for name, state in self.resources.items()
            if state.phase is not Phase.STREAMING and not (is_down and state.waits_for_kubelet)
        ]
        if not waiting:
            return ""
        name, state = waiting[0]
        others = f" and {len(waiting) - 1} more" if len(waiting) > 1 else ""
        return f"{name}{others} {state.phase.value}{f': {escape(str(state.reason))}' if state.reason else ''}"

    def _format_unhealthy(self) -> str:
        """One device that is not Healthy, and why; what a person has drained comes last."""
        unhealthy = [
            (device.reason.cause is ReasonCause.DRAIN, f"{name} {device.id}: {device.reason}")
            for name, list_ in self.lists.items()
            if list_.count_ids(Health.UNHEALTHY)
            for device in list_.devices
            if device.health is Health.UNHEALTHY
        ]
        return shorten(escape(min(unhealthy, key=itemgetter(0))[1]), REASON_LIMIT) if unhealthy else ""

    async def update_systemd(self) -> None:
        """Keep systemd's status line and READY true, until cancelled."""
        sent_line = ""
        while True:
            line = self.format_line()
            if self._is_ready and not self.ready_sent.is_set():
                systemd.notify(READY=1, STATUS=line)
                self.ready_sent.set()
            elif line != sent_line:
                systemd.notify(STATUS=line if self._is_ready else f"starting: {self.activity or line}")
            sent_line = line
            await self.wait_for_change()

    def _update_kubelet(self) -> None:
        """Say once that the kubelet went or came, when the last resource loses it or the last has it again.

        A resource that waits for something else, say because the kubelet refuses it, has it.
        """
        if not self.resources:
            return
        streaming_count = sum(state.phase is Phase.STREAMING for state in self.resources.values())
        refused_count = sum(
            state.phase is Phase.WAITING and not state.waits_for_kubelet for state in self.resources.values()
        )
        resource_count = len(self.resources)
        waiting_states = [state for state in self.resources.values() if state.waits_for_kubelet]
        previous, current_time = self.kubelet, time.monotonic()
        if (
            streaming_count
            and previous.up is not True
            and (previous.up is None or streaming_count + refused_count == resource_count)
        ):
            if previous.up is False:
                extra = fields(
                    MessageId.KUBELET_UP,
                    **{"from": "down"},
                    to="up",
                    since=_format_wall_time(previous.since or current_time),
                )
                quantity = f"{streaming_count} of" if refused_count else "all"
                log.log(
                    NOTICE,
                    "kubelet: down → up: %s %s listed again",
                    quantity,
                    format_count(resource_count, "resource"),
                    extra=extra,
                )
            self.kubelet = KubeletState(
                up=True, since=current_time, restarts=previous.restarts + (previous.up is False)
            )
        elif waiting_states and len(waiting_states) == resource_count and previous.up is not False:
            reason = waiting_states[0].reason.text
            previous_word = "starting" if previous.up is None else "up"
            waiting = f"{format_count(len(waiting_states), 'resource')} wait{'s' * (len(waiting_states) == 1)}"
            extra = fields(MessageId.KUBELET_DOWN, **{"from": previous_word}, to="down", reason=escape(reason))
            self._down_since = time.strftime("%H:%M:%S")
            log.error("kubelet: %s → down: %s (%s)", previous_word, escape(reason), waiting, extra=extra)
            self.kubelet = KubeletState(up=False, since=current_time, reason=reason, restarts=previous.restarts)


async def send_heartbeats() -> None:
    """Tell systemd that the event loop is alive, as often as it wants to know; returns if it does not."""
    interval_s = systemd.read_watchdog_seconds()
    while interval_s:
        systemd.notify(WATCHDOG=1)
        await asyncio.sleep(interval_s / 2)


def _build_phase_fields(
    kind: MessageId, resource: str, previous: ResourceState, current: ResourceState
) -> dict[str, dict[str, str]]:
    """The fields of a resource that went from one state to another."""
    states = {"from": previous.phase.value, "to": current.phase.value}
    return fields(
        kind, resource=resource, **states, reason=escape(str(current.reason)), since=_format_wall_time(previous.since)
    )


def _format_wall_time(monotonic: float) -> str:
    """A monotonic time as RFC 3339."""
    return format_timestamp(time.time() - (time.monotonic() - monotonic))


def _name_result(phase: Phase, reason: Reason) -> str:
    """What came of a registration."""
    if phase is Phase.STREAMING:
        return "ok"
    return "refused" if reason.cause is ReasonCause.REFUSED else "failed"
