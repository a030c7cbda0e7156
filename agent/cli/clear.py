"""Clear failing checks of a device. A latched check fails until a person clears it.

The agent evaluates the checks again at once. A check whose fault still exists fails again. Without CHECK, clear all
failing checks. A device that consists of several host devices then also forgets the members that it lost.
DEVICE is a device ID or a location. Sends a request to the running agent, as root.
Exit code 0: the device is Healthy. 1: it is still Unhealthy. 3: no agent is running. 4: no device has this name. 5: no
permission.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from agent.cli.agent_client import ask_agent
from agent.cli.output import NO_SUCH_NAME, fail, is_json, print_json
from agent.core.language.safe_text import escape

OUTPUTS = ("json", "jsonl")


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `clear`."""
    parser.add_argument("device", metavar="DEVICE", help="device ID or location")
    parser.add_argument("check", nargs="?", metavar="CHECK", help="name of the check (default: all failing checks)")


def run(arguments: argparse.Namespace) -> int:
    """Send the request and print the current state of the devices. Return the exit code."""
    request = {"do": "clear", "device": arguments.device, "check": arguments.check}
    answer = ask_agent(arguments, request)
    if isinstance(answer, int):
        return answer
    devices = answer["devices"]
    if not devices:
        error = f"{arguments.device}: no resource lists this device; for the IDs run device-agent status RESOURCE"
        return fail(arguments, error, NO_SUCH_NAME)
    if is_json(arguments):
        print_json(answer, arguments)
    else:
        print("\n".join(_format_device(device, arguments.check) for device in devices))
    return 1 if any(device["reason"] for device in devices) else 0


def _format_device(device: Mapping[str, Any], check: str | None) -> str:
    cleared_checks = ", ".join(device["cleared"])
    result = f"cleared: {cleared_checks}" if cleared_checks else f"{check} does not fail" if check else "no check fails"
    reason = f": {device['reason']}" if device["reason"] else ""
    return escape(f"{device['resource']} {device['id']}: {result}; {device['health'] or 'gone'} now{reason}")
