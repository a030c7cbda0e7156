"""Prepare programs: the programs that an entry runs before its preconditions are evaluated."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from agent.core.entry.program import Command
from agent.core.entry.resource_spec import ResourceSpec
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
