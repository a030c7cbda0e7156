"""Gates: what entries wait for that is of the machine, and what they want to have been run for it before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agent.core.entry.program import Command
from agent.core.entry.resource_spec import ResourceSpec
from agent.core.inventory.device import HostDevice
from agent.core.inventory.dirty_set import PathIndex
from agent.core.inventory.facts import Facts, Reader
from agent.core.inventory.prepare_programs import PrepareRequest, find_prepare_requests, find_prepare_wait
from agent.core.inventory.readiness import find_failed_precondition

_GATE = "gate:"  # how the keys begin under which gates are remembered, which are no host devices


def evaluate_preconditions(
    specs: Sequence[ResourceSpec],
    reader: Reader,
    places: PathIndex,
    before: tuple[Mapping[int, str], Mapping[int, tuple[PrepareRequest, ...]]],
    doubtful: set[str] | None,
    *,
    program_results: Mapping[Command, str] | None,
) -> tuple[Mapping[int, str], Mapping[int, tuple[PrepareRequest, ...]]]:
    """Which entries have to wait, and why, and what they want run, by their numbers.

    Where nothing touched concerns an entry, both are as `before`: those of the last look.
    """
    gates: dict[int, str] = {}
    programs: dict[int, tuple[PrepareRequest, ...]] = {}
    for entry, spec in enumerate(specs):
        if not spec.gate and not spec.prepare:
            continue
        machine = HostDevice(spec.source.kind, make_precondition_key(entry), "", "")
        if doubtful is not None and machine.key not in doubtful:
            gates[entry] = before[0][entry]
            programs[entry] = before[1][entry]
            continue
        facts = Facts(spec, machine, reader)
        programs[entry], fault = find_prepare_requests(spec, facts)
        gates[entry] = (
            fault or find_prepare_wait(programs[entry], program_results) or find_failed_precondition(spec, facts)
        )
        places.add(machine.key, reader.get_read_paths(machine))
    return gates, programs


def make_precondition_key(entry: int) -> str:
    """What an entry's gates and programs are remembered by among the keys of host devices."""
    return f"{_GATE}{entry}"


def is_precondition_key(key: str) -> bool:
    """Whether that is the key of an entry's gates."""
    return key.startswith(_GATE)
