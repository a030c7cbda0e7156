"""Read the host again now: all sources, or only SOURCE.

The agent reads the host after each event, and does a full rescan at a regular interval. Use this command if you do not
want to wait. SOURCE is the source of an entry: pci, or the text that `explain RESOURCE` shows. Sends a request to the
running agent, as root.
Exit code 0: success. 3: no agent is running. 4: no entry has this source. 5: no permission.
"""

from __future__ import annotations

import argparse

from agent.cli.agent_client import ask_agent
from agent.cli.output import NO_SUCH_NAME, is_json, print_json
from agent.core.language.safe_text import format_count

OUTPUTS = ("json", "jsonl")


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `rescan`."""
    parser.add_argument("source", nargs="?", metavar="SOURCE", help="read only this source")


def run(arguments: argparse.Namespace) -> int:
    """Send the request and print the changes that the rescan found. Return the exit code."""
    answer = ask_agent(arguments, {"do": "rescan", "source": arguments.source}, refusal_code=NO_SUCH_NAME)
    if isinstance(answer, int):
        return answer
    if is_json(arguments):
        print_json(answer, arguments)
        return 0
    for change in answer["changes"]:
        print(change)
    summary = f"{len(answer['changes'])} changed" if answer["changes"] else "nothing changed"
    milliseconds = answer["seconds"] * 1000
    devices = answer["host_devices"]
    print(f"{format_count(devices, 'host device')} read in {milliseconds:.0f} ms: {summary}")
    return 0
