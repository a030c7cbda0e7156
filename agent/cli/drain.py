"""Take a device, or all of a resource, out of scheduling: no new pod gets it, until it is given back with `undrain`.

Pods that hold it keep it. It lasts over restarts and reboots; of a device it is of its place, so what is put there in
its stead is drained too. DEVICE is any name: an id, an address, a node, a place. Asks the running agent, as root.
Exit code 0: done; with --wait: and no pod holds it. 3: no agent is running. 4: no such device. 5: no permission.
"""

from __future__ import annotations

import argparse
import sys
import time

from agent.cli.drain_output import WAIT_SECONDS, print_answer, request_device

OUTPUTS = ("json", "jsonl")
WAITING = (
    "drained; waiting until no pod can hold it (Ctrl-C ends the waiting, not the drain). "
    "If that never ends: device-agent doctor says whether the kubelet tells what pods hold"
)


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `drain`."""
    parser.add_argument("device", metavar="DEVICE|RESOURCE", help="what to take out of scheduling")
    parser.add_argument("--reason", metavar="TEXT", default="", help="why; it is shown wherever the device is")
    parser.add_argument("--wait", action="store_true", help="return when no pod holds it any more")


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
