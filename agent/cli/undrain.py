"""End the drain of a device, a resource, or a location without a device.

DEVICE is any name, as for `drain`. If you undrain a resource, devices with a drain of their own stay drained. Sends a
request to the running agent, as root.
Exit code 0: success, or nothing was drained. 3: no agent is running. 4: no device has this name. 5: no permission.
"""

from __future__ import annotations

import argparse
import sys

from agent.cli.drain_output import print_answer, request_device

OUTPUTS = ("json", "jsonl")


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `undrain`."""
    parser.add_argument("device", metavar="DEVICE|RESOURCE", help="the device or resource to undrain")


def run(arguments: argparse.Namespace) -> int:
    """Send the request and print the current state of the devices. Return the exit code."""
    answer = request_device("undrain", arguments)
    if isinstance(answer, int):
        return answer
    code = print_answer(answer, arguments)
    if drained_resources := sorted({device["resource"] for device in answer["devices"] if device["drained"]}):
        steps = " ".join(f"device-agent undrain {resource};" for resource in drained_resources)
        print(f"still drained, because the whole resource is drained: {steps.rstrip(';')}", file=sys.stderr)
    return code
