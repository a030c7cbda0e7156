"""In-pod devices: devices in use that the host no longer shows, because they are in the pod (`moves_into_pod`).

A network interface, or an RDMA device in exclusive mode, is in the network namespace of its pod and nowhere else. The
facts of the last look stay valid until the device is back or no pod uses it. Only checks of its PCI function continue.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from agent.core.entry.check import Check, CheckResult, CheckVerdict
from agent.core.entry.check_results import DeviceCheckResult
from agent.core.entry.resource_spec import ResourceSpec
from agent.core.inventory.candidate import Candidate
from agent.core.inventory.device import Device, DeviceList, HostDevice
from agent.core.inventory.facts import Facts, Reader
from agent.core.language.value import Absent
from agent.core.reason import Reason

_FUNCTION = re.compile(r"(?:.*/)?([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])(?:/|\Z)")
_HOST_WORDS = frozenset({"pci", "host", "options"})


class MovableDevice(NamedTuple):
    """A device in use that can leave the host for its pod. `entry` is the number of its entry."""

    entry: int
    resource: str
    device: Device

    @property
    def identity(self) -> tuple[int, str, str]:
        """The values that are equal for the same movable device."""
        return self.entry, self.resource, self.device.id


def find_movable_devices(
    specs: Sequence[ResourceSpec],
    lists: Mapping[str, DeviceList],
    written_names: Mapping[str, str],
    is_held: Callable[[Device], bool],
) -> dict[str, MovableDevice]:
    """Return the devices of these lists that can be in a pod, by key.

    Args:
        specs: the entries.
        lists: the lists that the kubelet has.
        written_names: the written name of each list.
        is_held: returns whether a pod can still use a device.
    """
    movable_specs = [(number, spec) for number, spec in enumerate(specs) if spec.moved_words is not None]
    movable_devices: dict[str, MovableDevice] = {}
    for name, device_list in lists.items() if movable_specs else ():
        list_specs = [
            (number, spec) for number, spec in movable_specs if spec.name == (written_names.get(name) or name)
        ]
        for device in device_list.devices if list_specs else ():
            entry = next((number for number, spec in list_specs if _may_list(spec, device)), None)
            if entry is not None and not device.first_share and is_held(device):
                movable_devices[device.key] = MovableDevice(entry, name, device)
    return movable_devices


def diff_movable_devices(
    old_devices: Mapping[str, MovableDevice], new_devices: Mapping[str, MovableDevice]
) -> frozenset[str]:
    """Return the keys of the devices that differ."""
    return frozenset(
        key
        for key in {**old_devices, **new_devices}
        if (key in old_devices and old_devices[key].identity) != (key in new_devices and new_devices[key].identity)
    )


def make_in_pod_candidate(
    movable_device: MovableDevice,
    spec: ResourceSpec,
    host_device: HostDevice | None,
    reader: Reader,
    *,
    is_location_taken: Callable[[str], bool],
    inactive_reason: str,
) -> tuple[Candidate, Facts] | None:
    """Build the candidate of an in-pod device, and return it with its facts. Return None if the device is not in a pod.

    Args:
        movable_device: the device.
        spec: its entry.
        host_device: what the host shows of it, or None.
        reader: the reader of the host.
        is_location_taken: returns whether another device of its source is at a location.
        inactive_reason: why the entry is not active now, or an empty string.
    """
    device = movable_device.device
    if host_device is None:
        if spec.moved_words or is_location_taken(device.location):
            return None
        host_device = HostDevice(
            spec.source.kind,
            device.key,
            device.key.rpartition("/")[2],
            device.location,
            device.key,
            "",
            device.instance_id,
        )
    elif not device.moved_words or device.instance_id != host_device.instance_id:
        return None
    facts = Facts(spec, host_device, reader)
    if spec.moved_words and not any(isinstance(facts(word), Absent) for word in device.moved_words):
        return None
    numa = facts(spec.topology) if isinstance(spec.topology, str) else None
    check_results = (
        DeviceCheckResult(spec.name, check, host_device.key, host_device.location, _evaluate_check(check, spec, facts))
        for check in spec.checks
    )
    candidate = Candidate(
        resource=movable_device.resource,
        device=host_device,
        ids=(device.id,),
        missing_id_reason="",
        numa=(numa,) if isinstance(numa, int) and numa >= 0 else device.numa,
        nodes=device.nodes,
        unhealthy_reason=Reason.from_text(_find_missing_function(host_device, facts)),
        not_ready_reason=inactive_reason,
        entry=movable_device.entry,
        written_name=spec.written_name,
        shares=device.shares,
        share_suffix=device.share_suffix,
        check_results=tuple(check_results),
        exclusive_keys=device.exclusive_keys,
        moved_words=device.moved_words,
        is_in_pod=True,
    )
    return candidate, facts


def _may_list(spec: ResourceSpec, device: Device) -> bool:
    """Return whether the source of an entry can find a device.

    Its key and location decide, because the device can be absent.
    """
    subsystem = spec.source.arguments[0] if spec.source.kind == "subsystem" else spec.source.kind
    return (device.key if device.key.startswith("pci:") else device.location).startswith(f"{subsystem}:")


def _find_missing_function(device: HostDevice, facts: Facts) -> str:
    """Return why the device cannot be in a pod: its PCI function does not exist. Otherwise return an empty string."""
    function_match = _FUNCTION.match(device.directory)
    if function_match is None:
        return ""
    address = function_match[1]
    directory = device.directory[: function_match.end(1)]
    function = HostDevice("pci", f"pci:{address}", address, "", directory)
    facts.related_devices[function.key] = function
    return f"its PCI function {address} is gone" if facts.reader.read_fact(function, "present") is False else ""


def _evaluate_check(check: Check, spec: ResourceSpec, facts: Facts) -> CheckResult:
    """Return the result of a check that reads only the PCI function. Other checks keep their state."""
    lines = (line for clause in check.list_clauses() for line in clause.walk_lines())
    can_evaluate = check.criterion.can_read_in_pod and all(_stays_on_host(line.word, spec) for line in lines)
    return check.evaluate(facts) if can_evaluate else CheckResult(CheckVerdict.IGNORED)


def _stays_on_host(word: str, spec: ResourceSpec) -> bool:
    """Return whether a word belongs to what stays on the host."""
    head = re.split(r"[./]", word, maxsplit=1)[0]
    if word in spec.derived_words or not spec.moved_words:
        return head in _HOST_WORDS or (word.startswith("/") and word not in spec.derived_words)
    return head not in {moved_word.partition(".")[0] for moved_word in spec.moved_words}
