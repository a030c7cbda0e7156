"""Preconditions: what an entry requires of the host, and the programs that it runs before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agent.core.entry.program import Command
from agent.core.entry.resource_spec import ResourceSpec
from agent.core.inventory.device import HostDevice
from agent.core.inventory.dirty_set import PathIndex
from agent.core.inventory.facts import Facts, Reader
from agent.core.inventory.prepare_programs import PrepareRequest, find_prepare_requests, find_prepare_wait
from agent.core.inventory.readiness import find_failed_precondition

_KEY_PREFIX = "gate:"  # no key of a host device begins so


def evaluate_preconditions(
    specs: Sequence[ResourceSpec],
    reader: Reader,
    path_index: PathIndex,
    previous: tuple[Mapping[int, str], Mapping[int, tuple[PrepareRequest, ...]]],
    dirty_keys: set[str] | None,
    *,
    program_results: Mapping[Command, str] | None,
) -> tuple[Mapping[int, str], Mapping[int, tuple[PrepareRequest, ...]]]:
    """Return why entries are not active, and the programs that they want to run, both by number of the entry.

    An entry that the dirty keys do not contain keeps the values of `previous`, the last look.
    """
    inactive_reasons: dict[int, str] = {}
    prepare_requests: dict[int, tuple[PrepareRequest, ...]] = {}
    for entry, spec in enumerate(specs):
        if not spec.gate and not spec.prepare:
            continue
        host = HostDevice(spec.source.kind, make_precondition_key(entry), "", "")
        if dirty_keys is not None and host.key not in dirty_keys:
            inactive_reasons[entry] = previous[0][entry]
            prepare_requests[entry] = previous[1][entry]
            continue
        facts = Facts(spec, host, reader)
        prepare_requests[entry], program_reason = find_prepare_requests(spec, facts)
        inactive_reasons[entry] = (
            program_reason
            or find_prepare_wait(prepare_requests[entry], program_results)
            or find_failed_precondition(spec, facts)
        )
        path_index.add(host.key, reader.get_read_paths(host))
    return inactive_reasons, prepare_requests


def make_precondition_key(entry: int) -> str:
    """Return the key of an entry's preconditions among the keys of host devices."""
    return f"{_KEY_PREFIX}{entry}"


def is_precondition_key(key: str) -> bool:
    """Return whether this is the key of an entry's preconditions."""
    return key.startswith(_KEY_PREFIX)
