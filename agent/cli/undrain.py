"""Give back what `drain` took out of scheduling: a device by any name, a resource, or a place where nothing is now.

A resource that is given back keeps those of its devices drained that were drained by themselves. Asks the running
agent, as root.
Exit code 0: done, or nothing was drained. 3: no agent is running. 4: no such device. 5: no permission.
"""

from __future__ import annotations

import argparse
import sys

from agent.cli.drain_output import print_answer, request_device

OUTPUTS = ("json", "jsonl")


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `undrain`."""
    parser.add_argument("device", metavar="DEVICE|RESOURCE", help="what to give back")


def run(arguments: argparse.Namespace) -> int:
    """Send the request and print the current state of the devices. Return the exit code."""
    answer = request_device("undrain", arguments)
    if isinstance(answer, int):
        return answer
    code = print_answer(answer, arguments)
    if drained_resources := sorted({device["resource"] for device in answer["devices"] if device["drained"]}):
        steps = " ".join(f"device-agent undrain {resource};" for resource in drained_resources)
        print(f"still drained with all of the resource: {steps.rstrip(';')}", file=sys.stderr)
    return code
