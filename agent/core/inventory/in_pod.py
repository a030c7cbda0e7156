"""Away: devices that pods hold and that have left the host's view for it (`moves_into_pod`).

A network interface, or an RDMA device in exclusive mode, is in the network namespace of its pod and nowhere else. What
was known of it when it was last seen holds until it is back or let go; only what its PCI function says goes on.
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
from agent.core.language.clause import Clause
from agent.core.language.value import Absent
from agent.core.reason import Reason

_FUNCTION = re.compile(r"(?:.*/)?([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])(?:/|\Z)")
_OF_THE_MACHINE = frozenset({"pci", "host", "options"})


class MovableDevice(NamedTuple):
    """A listed device that a pod holds and that may leave the host's view for that; entry: the number of its entry."""

    entry: int
    resource: str
    device: Device

    @property
    def identity(self) -> tuple[int, str, str]:
        """What two have in common that are the same."""
        return self.entry, self.resource, self.device.id


def find_movable_devices(
    specs: Sequence[ResourceSpec],
    lists: Mapping[str, DeviceList],
    written_names: Mapping[str, str],
    is_held: Callable[[Device], bool],
) -> dict[str, MovableDevice]:
    """The devices of these lists that may be away, by key.

    Args:
        specs: the entries.
        lists: as last told.
        written_names: the names of the lists as their entries write them.
        is_held: whether a pod holds a device.
    """
    moving = [(number, spec) for number, spec in enumerate(specs) if spec.moved_words is not None]
    found: dict[str, MovableDevice] = {}
    for name, snapshot in lists.items() if moving else ():
        own = [(number, spec) for number, spec in moving if spec.name == (written_names.get(name) or name)]
        for device in snapshot.devices if own else ():
            entry = next((number for number, spec in own if _sees(spec, device)), None)
            if entry is not None and not device.first_share and is_held(device):
                found[device.key] = MovableDevice(entry, name, device)
    return found


def diff_movable_devices(before: Mapping[str, MovableDevice], now: Mapping[str, MovableDevice]) -> frozenset[str]:
    """The keys of those that differ."""
    return frozenset(
        key
        for key in {**before, **now}
        if (key in before and before[key].identity) != (key in now and now[key].identity)
    )


def make_in_pod_candidate(
    mover: MovableDevice,
    spec: ResourceSpec,
    there: HostDevice | None,
    reader: Reader,
    *,
    taken: Callable[[str], bool],
    gate: str,
) -> tuple[Candidate, Facts] | None:
    """What a device is while it is away, and the facts that this rests on; none if it is not.

    Args:
        mover: the device.
        spec: its entry.
        there: what the host shows of it.
        taken: whether something else of its source is at a place.
        reader: of the host.
        gate: why the entry is not to offer anything now.
    """
    device = mover.device
    if there is None:
        if spec.moved_words or taken(device.location):
            return None
        there = HostDevice(
            spec.source.kind,
            device.key,
            device.key.rpartition("/")[2],
            device.location,
            device.key,
            "",
            device.instance_id,
        )
    elif not device.moved_words or device.instance_id != there.instance_id:
        return None
    facts = Facts(spec, there, reader)
    if spec.moved_words and not any(isinstance(facts(word), Absent) for word in device.moved_words):
        return None
    numa = facts(spec.topology) if isinstance(spec.topology, str) else None
    checked = (
        DeviceCheckResult(spec.name, check, there.key, there.location, _said(check, spec, facts))
        for check in spec.checks
    )
    known = Candidate(
        resource=mover.resource,
        device=there,
        ids=(device.id,),
        missing_id_reason="",
        numa=(numa,) if isinstance(numa, int) and numa >= 0 else device.numa,
        nodes=device.nodes,
        unhealthy_reason=Reason.of(_unfit(there, facts)),
        not_ready_reason=gate,
        entry=mover.entry,
        written_name=spec.written_name,
        shares=device.shares,
        share_suffix=device.share_suffix,
        check_results=tuple(checked),
        exclusive_keys=device.exclusive_keys,
        moved_words=device.moved_words,
        is_in_pod=True,
    )
    return known, facts


def _sees(spec: ResourceSpec, device: Device) -> bool:
    """Whether a device may be of an entry's source, by what it is known by: there may be no more of it."""
    subsystem = spec.source.arguments[0] if spec.source.kind == "subsystem" else spec.source.kind
    return (device.key if device.key.startswith("pci:") else device.location).startswith(f"{subsystem}:")


def _unfit(device: HostDevice, facts: Facts) -> str:
    """Why it cannot be in a pod: the PCI function behind it is not there."""
    found = _FUNCTION.match(device.directory)
    if found is None:
        return ""
    address = found[1]
    directory = device.directory[: found.end(1)]
    function = HostDevice("pci", f"pci:{address}", address, "", directory)
    facts.related_devices[function.key] = function
    return f"its PCI function {address} is gone" if facts.reader.read_fact(function, "present") is False else ""


def _said(check: Check, spec: ResourceSpec, facts: Facts) -> CheckResult:
    """What a check says, if it is one of the PCI function alone; else it stands still."""
    clauses = [check.criterion] if check.condition is None else [check.criterion, check.condition]
    lines = [line for clause in clauses if isinstance(clause, Clause) for line in clause.walk_lines()]
    goes_on = isinstance(check.criterion, Clause) and all(_stays(line.word, spec) for line in lines)
    return check.evaluate(facts) if goes_on else CheckResult(CheckVerdict.IGNORED)


def _stays(word: str, spec: ResourceSpec) -> bool:
    """Whether a word is of what stays on the host."""
    head = re.split(r"[./]", word, maxsplit=1)[0]
    if word in spec.derived_words or not spec.moved_words:
        return head in _OF_THE_MACHINE or (word.startswith("/") and word not in spec.derived_words)
    return head not in {moving.partition(".")[0] for moving in spec.moved_words}
