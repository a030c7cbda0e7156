"""What is run of a device before a container that has it starts, and the environment in which it is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from agent.core.entry.give_conditions import decide_condition
from agent.core.entry.program import Command, Program
from agent.core.grants.grant import GrantRefusedError, RefusalCause, RereadDevice
from agent.core.grants.grant_words import GrantWords
from agent.core.inventory.device import DeviceNode
from agent.core.language.template import has_control
from agent.core.language.value import Absent

PREFIX = "DEVICE_AGENT_"


class PrestartRun(NamedTuple):
    """A program of one device, and its command."""

    name: str
    command: Command


def list_prestart_runs(resource: str, chosen: RereadDevice, words: GrantWords) -> Iterator[PrestartRun]:
    """The programs of a device, in the order of its entry.

    Raises:
        Refused: it is another device now, or what a program rests on could not be read.
    """
    if not chosen.is_same_hardware:
        raise _refused(resource, chosen, "other hardware is in its place now")
    for program in chosen.spec.prestart if chosen.spec else ():
        given = decide_condition(program.condition, words)
        if isinstance(given, str):
            raise _refused(resource, chosen, given)
        if given:
            yield PrestartRun(program.name, _command(resource, chosen, program, words))


def build_environment(resource: str, chosen: RereadDevice) -> Mapping[str, str]:
    """What every program of a device is told of it; what it does not have is not there."""
    device, host = chosen.device, chosen.host
    nodes = dict.fromkeys(node.path for node in chosen.nodes.values() if isinstance(node, DeviceNode))
    said = {
        "RESOURCE": resource,
        "ID": device.id,
        "NAME": host.name if host else "",
        "PATH": host.directory if host else "",
        "NODE": host.node if host else "",
        "NODES": " ".join(nodes),
        "SHARES": " ".join(map(str, chosen.shares)),
    }
    return {f"{PREFIX}{name}": value for name, value in said.items() if value and not has_control(value)}


def make_failure_error(resource: str, chosen: RereadDevice, program: str, reason: str) -> GrantRefusedError:
    """That a program did not do what it was run for."""
    return GrantRefusedError(RefusalCause.HOOK_FAILED, f"{resource} {chosen.device.id}: prestart.{program}: {reason}")


def _command(resource: str, chosen: RereadDevice, program: Program, words: GrantWords) -> Command:
    command = program.build_command(words)
    if isinstance(command, Absent):
        raise make_failure_error(resource, chosen, program.name, command.reason)
    return command


def _refused(resource: str, chosen: RereadDevice, reason: str) -> GrantRefusedError:
    return GrantRefusedError(RefusalCause.UNHEALTHY, f"{resource} {chosen.device.id}: {reason}")
