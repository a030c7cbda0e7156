"""Shared code of `drain` and `undrain`: send the request and print the state of the device."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator

from agent.cli.agent_client import ask_agent
from agent.cli.output import NO_SUCH_NAME, fail, is_json, print_json
from agent.cli.status import format_holders
from agent.control.control_socket import ControlAnswer
from agent.core.language.safe_text import escape
from agent.core.language.value import Absent
from agent.host.root import Root

WAIT_SECONDS = 2.0  # between two requests for the state of the devices
_SHOWN_DEVICES = 10  # devices that have their own line


def request_device(action: str, arguments: argparse.Namespace, **fields: str) -> ControlAnswer | int:
    """Send a request about the named device and return the answer.

    On failure, print the reason and return the exit code.
    """
    name = arguments.device
    real_name = Root(arguments.root).resolve(name) if name.startswith("/") else name
    request = {"do": action, "name": name if isinstance(real_name, Absent) else real_name, **fields}
    answer = ask_agent(arguments, request)
    if isinstance(answer, int) or answer.get("found", True):
        return answer
    error = f"{name}: no resource and no listed device has this name; device-agent status RESOURCE lists the devices"
    return fail(arguments, error, NO_SUCH_NAME)


def print_answer(answer: ControlAnswer, arguments: argparse.Namespace) -> int:
    """Print the state of the devices in the answer. Return the exit code 0."""
    if is_json(arguments):
        print_json(answer, arguments)
    else:
        print("\n".join(_format_lines(answer)))
    if not answer["remembered"]:
        print("the state file cannot be written: a restart of the agent loses this change", file=sys.stderr)
    return 0


def _format_lines(answer: ControlAnswer) -> Iterator[str]:
    devices = answer["devices"]
    for device in devices[:_SHOWN_DEVICES]:
        yield escape(f"{device['resource']} {device['id']} at {device['place']}: {_format_drain_state(device)}")
        if device["drained"] and device["held_by"]:
            holders = format_holders(device["held_by"])
            yield f"held by {holders}, which keeps it until it ends (drain --wait waits for this)"
    if len(devices) > _SHOWN_DEVICES:
        yield f"and {len(devices) - _SHOWN_DEVICES} more"
    if not devices:
        yield "no device is at this location now"


def _format_drain_state(device: ControlAnswer) -> str:
    drained = device["drained"]
    if drained is None:
        return f"not drained; {device['health']}{': ' + device['reason'] if device['reason'] else ''}"
    reason = f" ({drained['reason']})" if drained["reason"] else ""
    return f"drained{reason}; no new pod gets it until undrain, also after restarts and reboots"
