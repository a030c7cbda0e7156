"""Drain a device or a resource: no new pod gets it until `undrain`.

Works like `kubectl cordon`, not like `kubectl drain`: pods that use the device keep it. The drain stays after restarts
and reboots. The drain of a device applies to its location, so a new device at that location is drained too. DEVICE is
any name: an ID, an address, a node, a location. Sends a request to the running agent, as root.
Exit code 0: success; with --wait, no pod uses the device. 3: no agent is running. 4: no device has this name. 5: no
permission.
"""

from __future__ import annotations

import argparse
import sys
import time

from agent.cli.drain_output import WAIT_SECONDS, print_answer, request_device

OUTPUTS = ("json", "jsonl")
WAITING = (
    "drained; waiting until no pod can use it (Ctrl-C ends the wait, not the drain). "
    "If the wait does not end, device-agent doctor shows whether the kubelet reports the devices of pods"
)


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `drain`."""
    parser.add_argument("device", metavar="DEVICE|RESOURCE", help="the device or resource to drain")
    parser.add_argument(
        "--reason", metavar="TEXT", default="", help="the reason, which all commands show with the device"
    )
    parser.add_argument("--wait", action="store_true", help="wait until no pod uses the device")


def run(arguments: argparse.Namespace) -> int:
    """Send the request and print the state of the devices. With --wait, return when no pod can hold them."""
    answer = request_device("drain", arguments, reason=arguments.reason)
    if isinstance(answer, int):
        return answer
    if arguments.wait and any(device["may_be_held"] for device in answer["devices"]):
        print(WAITING, file=sys.stderr)
    while arguments.wait and any(device["may_be_held"] for device in answer["devices"]):
        time.sleep(WAIT_SECONDS)
        current_answer = request_device("held", arguments)
        if isinstance(current_answer, int):
            return current_answer
        answer = {**answer, **current_answer}
    return print_answer(answer, arguments)
