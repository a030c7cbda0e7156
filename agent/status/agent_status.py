"""Reports of the agent about itself: log lines at transitions, and the status line and heartbeat for systemd.

Each transition has one log line, old → new, with the reason. If all resources lose or find the kubelet at once, the log
has one line.
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
from agent.core.lists.list_findings import WithheldTopology
from agent.core.lists.transitions import MAX_TRANSITION_LINES, Transition, find_transitions
from agent.core.message_id import NOTICE, MessageId, build_log_extra
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
    """The states of all parts, each reported once.

    Attributes:
        resources: the registration state of each resource.
        lists: the current lists.
        notice: why the last reload was refused, or an empty string.
        ignored_files: the files that are ignored because of errors, or an empty string.
        activity: the activity before the first lists.
        missing: for each resource with fewer devices than expected, the count.
        kubelet: the state of the kubelet, from all resources.
        history: the last changes of devices.
        ready_sent: set after READY was sent to systemd.
    """

    def __init__(
        self,
        counters: Counters | None = None,
        get_holders: Callable[[], Holders] = dict,
        list_checks: Callable[[str], frozenset[str]] = lambda _: frozenset(),
        find_evidence: Callable[[Transition, str], str] = lambda _change, _check: "",
    ) -> None:
        """Create it.

        get_holders: returns the containers of each device, if known. list_checks: returns the check names of a
        resource. find_evidence: returns the kernel log line that caused a transition.
        """
        self._counters = counters or Counters()
        self._get_holders = get_holders
        self._list_checks = list_checks
        self._find_evidence = find_evidence
        self.resources: dict[str, ResourceState] = {}
        self._arriving_resources: set[str] = set()  # resources before their first stream
        self.lists: Mapping[str, DeviceList] = {}
        self.notice = self.ignored_files = self.activity = ""
        self._down_since = ""  # wall time at which the kubelet went down
        self._is_ready = False
        self._complaints: dict[str, Reason] = {}
        self.missing: Mapping[str, str] = {}
        self.kubelet = KubeletState()
        self.history = History()
        self._withheld_topologies: dict[str, WithheldTopology] = {}
        self._change_event = asyncio.Event()
        self.ready_sent = asyncio.Event()

    def add(self, resource: str) -> None:
        """Add a resource."""
        self.resources[resource] = ResourceState(Phase.WAITING, STARTING, time.monotonic())
        self._arriving_resources.add(resource)
        self._notify_waiters()

    def remove(self, resource: str) -> None:
        """Remove a resource."""
        self.resources.pop(resource, None)
        self._arriving_resources.discard(resource)
        self._complaints.pop(resource, None)
        self._withheld_topologies.pop(resource, None)
        self._notify_waiters()

    def set_phase(self, resource: str, phase: Phase, reason: Reason) -> None:
        """Record a new phase of a registration."""
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
            self._complaints[resource] = reason  # logged once until the resource streams
        self._update_kubelet()
        self._notify_waiters()

    def record_lists(self, previous_lists: Mapping[str, DeviceList], lists: DeviceLists, *, is_first: bool) -> None:
        """Record new lists. The first lists (`is_first`) have no transitions."""
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
        """Return the transitions of one resource with time, check and evidence. A storm has no such context."""
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
        """Log each resource with fewer devices than expected once, with the count."""
        for name, text in missing.items():
            if self.missing.get(name) != text:
                log.warning(
                    "%s: %s there", name, text, extra=build_log_extra(MessageId.SHORT, resource=name, reason=text)
                )
        for name in self.missing.keys() - missing.keys():
            log.info("%s: the expected devices are present", name)
        self.missing = dict(missing)

    def set_withheld_topologies(self, topologies: Mapping[str, WithheldTopology | None]) -> None:
        """Log each resource whose NUMA nodes are withheld although some devices have one. Each is logged once."""
        for name, topology in topologies.items():
            if topology is None:
                if self._withheld_topologies.pop(name, None):
                    log.info("%s: the kubelet gets the NUMA nodes of its devices again", name)
            elif self._withheld_topologies.get(name) != topology:
                self._withheld_topologies[name] = topology
                log.warning("%s: %s", name, escape(topology.text))

    def set_ready(self) -> None:
        """Report that the agent is ready."""
        self._is_ready = True
        self._notify_waiters()
        log.log(NOTICE, "agent: starting → ready: %s", self.format_line(), extra=build_log_extra(MessageId.READY))

    @property
    def has_started(self) -> bool:
        """Return whether every resource has left its first phase: it is registered, or waits for a known reason."""
        return all(state.reason.cause is not ReasonCause.STARTING for state in self.resources.values())

    @property
    def change_event(self) -> asyncio.Event:
        """The event that the next change sets."""
        return self._change_event

    async def wait_for_change(self) -> None:
        """Return at the next change."""
        await self._change_event.wait()

    async def wait_for_arrival(self) -> None:
        """Return when every resource has a stream, or waits for a known reason."""
        while self._arriving_resources:
            await self.wait_for_change()

    def set_notice(self, notice: str) -> None:
        """Set the notice in the status line."""
        self.notice = notice
        self._notify_waiters()

    def _notify_waiters(self) -> None:
        self._change_event.set()
        self._change_event = asyncio.Event()

    def format_line(self) -> str:
        """Return the status in one line, as `systemctl status` shows it."""
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
        """Return the resources that wait for another reason than the kubelet's absence."""
        is_down = self.kubelet.up is False
        waiting = [
            (name, state)
            for name, state in self.resources.items()
            if state.phase is not Phase.STREAMING and not (is_down and state.waits_for_kubelet)
        ]
        if not waiting:
            return ""
        name, state = waiting[0]
        suffix = f" and {len(waiting) - 1} more" if len(waiting) > 1 else ""
        return f"{name}{suffix} {state.phase.value}{f': {escape(str(state.reason))}' if state.reason else ''}"

    def _format_unhealthy(self) -> str:
        """Return one Unhealthy device with its reason. A drained device comes last."""
        unhealthy = [
            (device.reason.cause is ReasonCause.DRAIN, f"{name} {device.id}: {device.reason}")
            for name, list_ in self.lists.items()
            if list_.count_ids(Health.UNHEALTHY)
            for device in list_.devices
            if device.health is Health.UNHEALTHY
        ]
        return shorten(escape(min(unhealthy, key=itemgetter(0))[1]), REASON_LIMIT) if unhealthy else ""

    async def update_systemd(self) -> None:
        """Send the status line and READY to systemd, until cancelled."""
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
        """Log once that the kubelet is down or up again: after the last resource loses it, or has it again.

        A resource that waits for another reason, for example a refusal, has the kubelet.
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
                extra = build_log_extra(
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
            extra = build_log_extra(MessageId.KUBELET_DOWN, **{"from": previous_word}, to="down", reason=escape(reason))
            self._down_since = time.strftime("%H:%M:%S")
            log.error("kubelet: %s → down: %s (%s)", previous_word, escape(reason), waiting, extra=extra)
            self.kubelet = KubeletState(up=False, since=current_time, reason=reason, restarts=previous.restarts)


async def send_heartbeats() -> None:
    """Send heartbeats to systemd in the interval of its watchdog. Return at once without a watchdog."""
    interval_s = systemd.read_watchdog_seconds()
    while interval_s:
        systemd.notify(WATCHDOG=1)
        await asyncio.sleep(interval_s / 2)


def _build_phase_fields(
    kind: MessageId, resource: str, previous: ResourceState, current: ResourceState
) -> dict[str, dict[str, str]]:
    """Return the log fields of a change from one phase to another."""
    states = {"from": previous.phase.value, "to": current.phase.value}
    return build_log_extra(
        kind, resource=resource, **states, reason=escape(str(current.reason)), since=_format_wall_time(previous.since)
    )


def _format_wall_time(monotonic: float) -> str:
    """Return a monotonic time as RFC 3339 wall time."""
    return format_timestamp(time.time() - (time.monotonic() - monotonic))


def _name_result(phase: Phase, reason: Reason) -> str:
    """Return the result of a registration for its counter."""
    if phase is Phase.STREAMING:
        return "ok"
    return "refused" if reason.cause is ReasonCause.REFUSED else "failed"
