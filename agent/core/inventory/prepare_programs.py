"""Preparing: which programs an entry wants to have been run before its gates are asked, and what holds it back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from agent.core.entry.program import Command
from agent.core.entry.resource_spec import ResourceSpec
from agent.core.language.logic import Knowledge
from agent.core.language.value import Absent

NOT_RUN = "it is to be run"


class PrepareRequest(NamedTuple):
    """A program that an entry wants run. once: when it has been, it has; else as long as its clause holds."""

    name: str
    command: Command
    runs_once: bool


def find_prepare_requests(spec: ResourceSpec, facts: Knowledge) -> tuple[tuple[PrepareRequest, ...], str]:
    """The programs of which the clauses hold, and why one cannot be run. `facts` tell of the machine."""
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
    """Which of these programs has not been run well; empty if all have.

    outcomes: of those that ended, why not well, or nothing. None where nobody runs programs: they count as run.
    """
    if program_results is None:
        return ""
    for request in requests:
        if result := program_results.get(request.command, NOT_RUN):
            return f"waits for prepare.{request.name}: {result}"
    return ""
