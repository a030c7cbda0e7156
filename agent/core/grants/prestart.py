"""Prestart programs of a device, and their environment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from agent.core.entry.give_conditions import decide_condition
from agent.core.entry.program import Command
from agent.core.grants.grant import GrantRefusedError, RefusalCause, RereadDevice
from agent.core.grants.grant_words import GrantWords
from agent.core.inventory.device import DeviceNode
from agent.core.language.template import has_control
from agent.core.language.value import Absent
from agent.core.struct import Struct

PREFIX = "DEVICE_AGENT_"


class PrestartRun(Struct):
    """The name of a program of one device, and its command."""

    name: str
    command: Command


def list_prestart_runs(resource: str, device: RereadDevice, words: GrantWords) -> Iterator[PrestartRun]:
    """Yield the prestart runs of a device, in the order of its entry.

    Raises:
        GrantRefusedError: other hardware is in its place, or a fact for a program could not be read.
    """
    if not device.is_same_hardware:
        raise _make_refusal(resource, device, "other hardware is in its place now")
    for program in device.spec.prestart if device.spec else ():
        decision = decide_condition(program.condition, words)
        if isinstance(decision, str):
            raise _make_refusal(resource, device, decision)
        if decision:
            command = program.build_command(words)
            if isinstance(command, Absent):
                raise make_failure_error(resource, device, program.name, command.reason)
            yield PrestartRun(program.name, command)


def build_environment(resource: str, reread_device: RereadDevice) -> Mapping[str, str]:
    """Return the environment of the prestart programs of a device. Variables without a value are left out."""
    device, host = reread_device.device, reread_device.host
    nodes = dict.fromkeys(node.path for node in reread_device.nodes.values() if isinstance(node, DeviceNode))
    values = {
        "RESOURCE": resource,
        "ID": device.id,
        "NAME": host.name if host else "",
        "PATH": host.directory if host else "",
        "NODE": host.node if host else "",
        "NODES": " ".join(nodes),
        "SHARES": " ".join(map(str, reread_device.shares)),
    }
    return {f"{PREFIX}{name}": value for name, value in values.items() if value and not has_control(value)}


def make_failure_error(resource: str, device: RereadDevice, program: str, reason: str) -> GrantRefusedError:
    """Return the refusal for a prestart program that failed."""
    return GrantRefusedError(RefusalCause.HOOK_FAILED, f"{resource} {device.device.id}: prestart.{program}: {reason}")


def _make_refusal(resource: str, device: RereadDevice, reason: str) -> GrantRefusedError:
    return GrantRefusedError(RefusalCause.UNHEALTHY, f"{resource} {device.device.id}: {reason}")
