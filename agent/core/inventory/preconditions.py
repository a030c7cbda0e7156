"""Preconditions: what an entry requires of the host, and the programs that it runs before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from agent.core.entry.program import Command
from agent.core.entry.resource_spec import ResourceSpec
from agent.core.inventory.device import HostDevice
from agent.core.inventory.dirty_set import PathIndex
from agent.core.inventory.facts import Facts, Reader
from agent.core.inventory.readiness import find_failed_precondition
from agent.core.language.logic import Knowledge
from agent.core.language.value import Absent

NOT_RUN = "it is to be run"


class PrepareRequest(NamedTuple):
    """A program that an entry wants to run.

    runs_once: the program runs once. Otherwise it runs while its clause matches.
    """

    name: str
    command: Command
    runs_once: bool


def find_prepare_requests(spec: ResourceSpec, facts: Knowledge) -> tuple[tuple[PrepareRequest, ...], str]:
    """Return the programs whose clauses match, and why one has no command. `facts` are those of the host."""
    requests: list[PrepareRequest] = []
    reason = ""
    for program in spec.prepare:
        if program.condition is not None and program.condition.find_failed_line(facts) is not None:
            continue
        command = program.build_command(facts)
        if isinstance(command, Absent):
            reason = reason or f"waits for prepare.{program.name}: {command.reason}"
        else:
            requests.append(PrepareRequest(program.name, command, runs_once=program.condition is None))
    return tuple(requests), reason


def find_prepare_wait(requests: tuple[PrepareRequest, ...], program_results: Mapping[Command, str] | None) -> str:
    """Return which of these programs has not succeeded, or an empty string.

    program_results: the failure text of each program that ended, empty after success. None if no runner exists. Then
        all programs count as successful.
    """
    if program_results is None:
        return ""
    for request in requests:
        if result := program_results.get(request.command, NOT_RUN):
            return f"waits for prepare.{request.name}: {result}"
    return ""


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
