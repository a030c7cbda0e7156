"""Problems: states that an administrator must fix, with time, affected pods and next steps."""

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

_MAX_SINGLE_PROBLEMS = 3  # if more devices of a resource have the same reason, they are one problem
_CHECK_COMMAND = "device-agent check"
KUBELET = "kubelet"
_KUBELET_EFFECT = "Running pods keep their devices, no new pod starts. All is listed again as soon as it is back."
_RELOAD_EFFECT = "What was in force is served as before; what was changed is not."
_OPEN_FILES_EFFECT = (
    "With none left no kubelet, pod or command that is new reaches the agent, and what it cannot read is unknown."
)
_STATE_EFFECT = "Nothing now. After a restart of the agent it is not known what pods hold, nor what was drained."


class Problem(Struct):
    """A state that an administrator must fix.

    subject: the resource or part of the agent.
    devices: IDs of the devices of a resource.
    locations: where each device is.
    next_steps: commands that cause no harm.
    effect: the consequence for pods.
    since: monotonic seconds, or None if the time is not known.
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


def find_problems(snapshot: AgentSnapshot) -> tuple[Problem, ...]:
    """Return all problems, the most important first.

    Drained devices and retiring devices are no problems, because an administrator caused these states.
    """
    return (
        *_find_kubelet_problems(snapshot),
        *_find_configuration_problems(snapshot),
        *_find_process_problems(snapshot),
        *_find_resource_problems(snapshot),
    )


def _find_kubelet_problems(snapshot: AgentSnapshot) -> Iterator[Problem]:
    kubelet = snapshot.kubelet
    if kubelet.up is False:
        streaming_count = sum(state.phase is Phase.STREAMING for state in snapshot.states.values())
        reason = f"{kubelet.reason}; {streaming_count} of {format_count(len(snapshot.states), 'resource')} streaming"
        yield Problem(KUBELET, "down", reason, ("journalctl -u kubelet -n 50",), kubelet.since, effect=_KUBELET_EFFECT)


def _find_configuration_problems(snapshot: AgentSnapshot) -> Iterator[Problem]:
    configuration = snapshot.configuration
    if configuration.reload_error:
        yield Problem("configuration", "refused", configuration.reload_error, (_CHECK_COMMAND,), effect=_RELOAD_EFFECT)
    elif configuration.error_count:
        errors = format_count(configuration.error_count, "error")
        yield Problem("configuration", "incomplete", f"{errors}; files with errors are left out", (_CHECK_COMMAND,))


def _find_process_problems(snapshot: AgentSnapshot) -> Iterator[Problem]:
    if snapshot.open_files_fault:
        limit_command = ("systemctl show device-agent -p LimitNOFILE",)
        yield Problem("open files", "short", snapshot.open_files_fault, limit_command, effect=_OPEN_FILES_EFFECT)
    if snapshot.state_file_fault:
        directory = snapshot.state_file_fault.path.rpartition("/")[0]
        space = (f"df -h {shlex.quote(directory)}",)
        yield Problem("state", "not written", str(snapshot.state_file_fault), space, effect=_STATE_EFFECT)


def _find_resource_problems(snapshot: AgentSnapshot) -> Iterator[Problem]:
    for name, device_list in snapshot.lists.lists.items():
        explain_command = f"device-agent explain {name}"
        state = snapshot.states.get(name)
        is_waiting = (
            state is not None and state.phase is Phase.WAITING and state.reason.cause is not ReasonCause.STARTING
        )
        if state is not None and is_waiting and not (state.waits_for_kubelet and snapshot.kubelet.up is False):
            yield Problem(name, "waiting", str(state.reason), (explain_command,), state.since)
        yield from _find_device_problems(snapshot, device_list)
        yield from _find_unlisted_problems(snapshot, name)
    for name, shortage in snapshot.missing_devices.items():
        yield Problem(name, "short", f"{shortage} there", (f"device-agent explain {name}",))


def _find_device_problems(snapshot: AgentSnapshot, device_list: DeviceList) -> Iterator[Problem]:
    name = device_list.resource
    devices_by_reason: dict[Reason, list[Device]] = {}
    for device in device_list.devices:
        is_intended = snapshot.drains.find_drain(name, device.locations) is not None or is_retiring(
            snapshot, name, device
        )
        if device.health is Health.UNHEALTHY and not is_intended:
            devices_by_reason.setdefault(device.reason, []).append(device)
    for reason, devices in devices_by_reason.items():
        for fold in [devices] if len(devices) > _MAX_SINGLE_PROBLEMS else [[device] for device in devices]:
            first_device = fold[0]
            yield Problem(
                name,
                "Unhealthy",
                str(reason),
                (f"device-agent explain {first_device.id}",),
                min(find_health_time(snapshot, name, device) for device in fold),
                tuple(device.id for device in fold),
                tuple(find_holders(snapshot, name, fold)),
                tuple(find_address(snapshot, name, device) for device in fold),
            )


def _find_unlisted_problems(snapshot: AgentSnapshot, resource: str) -> Iterator[Problem]:
    """Yield the unlisted candidates, one problem for each reason. A candidate that is not ready is no problem."""
    locations_by_reason: dict[str, list[str]] = {}
    for unlisted in snapshot.lists.unlisted:
        if unlisted.resource == resource and not _is_not_ready(snapshot, resource, unlisted.key):
            locations_by_reason.setdefault(unlisted.reason, []).append(unlisted.location)
    for reason, locations in locations_by_reason.items():
        yield Problem(resource, "not listed", reason, (f"device-agent explain {resource}",), None, tuple(locations))


def _is_not_ready(snapshot: AgentSnapshot, resource: str, key: str) -> bool:
    candidate = snapshot.candidates.get((resource, snapshot.lists.written_names.get(resource, "")), {}).get(key)
    return candidate is not None and bool(candidate.not_ready_reason)
