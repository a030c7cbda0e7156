"""What needs a person at a moment: what is wrong, since when, who has it, and what to do next."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from agent.core.grants.held_ids import Holder
from agent.core.inventory.device import Device, DeviceList, Health
from agent.core.language.safe_text import format_count
from agent.core.reason import Reason, ReasonCause
from agent.core.registration_phase import Phase
from agent.core.report.agent_snapshot import AgentSnapshot
from agent.core.report.device_report import find_address, find_health_time, find_holders, is_retiring
from agent.core.struct import Struct

_FOLDED = 3  # devices of a resource that are off for one reason are one problem if there are more of them
_CHECK = "device-agent check"
KUBELET = "kubelet"
_NO_KUBELET = "Running pods keep their devices, no new pod starts. All is listed again as soon as it is back."
_REFUSED = "What was in force is served as before; what was changed is not."
_SHUT = "With none left no kubelet, pod or command that is new reaches the agent, and what it cannot read is unknown."
_FORGOTTEN = "Nothing now. After a restart of the agent it is not known what pods hold, nor what was drained."


class Problem(Struct):
    """Something that needs a person.

    subject: whose it is. devices: which, of a resource, and places: where each is. next: commands that do no harm.
    means: what pods notice of it.
    since: monotonic seconds; None if that is not known.
    """

    subject: str
    state: str
    reason: str
    next_steps: tuple[str, ...]
    since: float | None = None
    devices: tuple[str, ...] = ()
    holders: tuple[Holder, ...] = ()
    locations: tuple[str, ...] = ()
    effect: str = ""


def find_problems(moment: AgentSnapshot) -> tuple[Problem, ...]:
    """All that needs a person, what concerns most first. What is drained, or was taken out by configuration, does not:
    a person wanted it so.
    """
    return (*_kubelet(moment), *_configuration(moment), *_process(moment), *_resources(moment))


def _kubelet(moment: AgentSnapshot) -> Iterator[Problem]:
    kubelet = moment.kubelet
    if kubelet.up is False:
        listed = sum(state.phase is Phase.STREAMING for state in moment.states.values())
        reason = f"{kubelet.reason}; {listed} of {format_count(len(moment.states), 'resource')} streaming"
        yield Problem(KUBELET, "down", reason, ("journalctl -u kubelet -n 50",), kubelet.since, effect=_NO_KUBELET)


def _configuration(moment: AgentSnapshot) -> Iterator[Problem]:
    said = moment.configuration
    if said.reload_error:
        yield Problem("configuration", "refused", said.reload_error, (_CHECK,), effect=_REFUSED)
    elif said.error_count:
        errors = format_count(said.error_count, "error")
        yield Problem("configuration", "incomplete", f"{errors}; files with errors are left out", (_CHECK,))


def _process(moment: AgentSnapshot) -> Iterator[Problem]:
    if moment.open_files_fault:
        limit = ("systemctl show device-agent -p LimitNOFILE",)
        yield Problem("open files", "short", moment.open_files_fault, limit, effect=_SHUT)
    if moment.state_file_fault:
        directory = moment.state_file_fault.path.rpartition("/")[0]
        space = (f"df -h {shlex.quote(directory)}",)
        yield Problem("state", "not written", str(moment.state_file_fault), space, effect=_FORGOTTEN)


def _resources(moment: AgentSnapshot) -> Iterator[Problem]:
    for name, snapshot in moment.lists.snapshots.items():
        explain = f"device-agent explain {name}"
        state = moment.states.get(name)
        off = state is not None and state.phase is Phase.WAITING and state.reason.cause is not ReasonCause.STARTING
        if state is not None and off and not (state.waits_for_kubelet and moment.kubelet.up is False):
            yield Problem(name, "waiting", str(state.reason), (explain,), state.since)
        yield from _devices(moment, snapshot)
        yield from _unlisted(moment, name)
    for name, missing in moment.missing_devices.items():
        yield Problem(name, "short", f"{missing} there", (f"device-agent explain {name}",))


def _devices(moment: AgentSnapshot, snapshot: DeviceList) -> Iterator[Problem]:
    name = snapshot.resource
    alike: dict[Reason, list[Device]] = {}
    for device in snapshot.devices:
        wanted = moment.drains.of(name, device.places) is not None or is_retiring(moment, name, device)
        if device.health is Health.UNHEALTHY and not wanted:
            alike.setdefault(device.reason, []).append(device)
    for reason, devices in alike.items():
        for fold in [devices] if len(devices) > _FOLDED else [[device] for device in devices]:
            first = fold[0]
            yield Problem(
                name,
                "Unhealthy",
                str(reason),
                (f"device-agent explain {first.id}",),
                min(find_health_time(moment, name, device) for device in fold),
                tuple(device.id for device in fold),
                tuple(find_holders(moment, name, fold)),
                tuple(find_address(moment, name, device) for device in fold),
            )


def _unlisted(moment: AgentSnapshot, resource: str) -> Iterator[Problem]:
    """What has no place in the list. What only waits, as its entry says it should, is nobody's problem."""
    alike: dict[str, list[str]] = {}
    for one in moment.lists.unlisted:
        if one.resource == resource and not _waits(moment, resource, one.key):
            alike.setdefault(one.reason, []).append(one.place)
    for reason, places in alike.items():
        yield Problem(resource, "not listed", reason, (f"device-agent explain {resource}",), None, tuple(places))


def _waits(moment: AgentSnapshot, resource: str, key: str) -> bool:
    candidate = moment.candidates.get((resource, moment.lists.written.get(resource, "")), {}).get(key)
    return candidate is not None and bool(candidate.waits)
