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
    found: list[PrepareRequest] = []
    fault = ""
    for program in spec.prepare:
        if program.condition is not None and program.condition.find_failed_line(facts) is not None:
            continue
        command = program.build_command(facts)
        if isinstance(command, Absent):
            fault = fault or f"waits for prepare.{program.name}: {command.reason}"
        else:
            found.append(PrepareRequest(program.name, command, runs_once=program.condition is None))
    return tuple(found), fault


def find_prepare_wait(programs: tuple[PrepareRequest, ...], program_results: Mapping[Command, str] | None) -> str:
    """Which of these programs has not been run well; empty if all have.

    outcomes: of those that ended, why not well, or nothing. None where nobody runs programs: they count as run.
    """
    if program_results is None:
        return ""
    for one in programs:
        if outcome := program_results.get(one.command, NOT_RUN):
            return f"waits for prepare.{one.name}: {outcome}"
    return ""
