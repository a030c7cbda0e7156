"""Load the configuration again. Resources that did not change keep their sockets, streams and pods.

An error in the configuration changes nothing. --dry-run shows the changes without making them. Sends a request to the
running agent, as root.
Exit code 0: success. 1: the configuration has errors. 3: no agent is running. 5: no permission.
"""

from __future__ import annotations

import argparse
import sys

from agent.cli.agent_client import ask_agent
from agent.cli.output import is_json, print_json
from agent.cli.terminal import Terminal
from agent.control.control_socket import ControlAnswer
from agent.core.language.safe_text import escape

OUTPUTS = ("json", "jsonl")

_NOTES = {
    "unchanged": "streams kept",
    "changed": "for new grants",
    "added": "registered as soon as they are listed",
    "removed": "devices of running pods stay in the list as Unhealthy until the pods end",
}


def add(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `reload`."""
    parser.add_argument("--dry-run", action="store_true", help="show the changes and make none")


def run(arguments: argparse.Namespace) -> int:
    """Send the request and print the result. Return the exit code."""
    answer = ask_agent(arguments, {"do": "reload", "dry_run": arguments.dry_run})
    if isinstance(answer, int):
        return answer
    if is_json(arguments):
        print_json(answer, arguments)
    else:
        terminal = Terminal.detect(sys.stdout, colour=arguments.color, utc=arguments.utc)
        print(terminal.make_displayable("\n".join(_format_lines(answer, dry=arguments.dry_run))))
    return 1 if answer["refused"] else 0


def _format_lines(answer: ControlAnswer, *, dry: bool) -> list[str]:
    lines = [finding["text"] for finding in answer["findings"]]
    previous_digest, current_digest = answer["before"], answer["after"]
    if answer["refused"]:
        refusal_text = "would be refused" if dry else "refused"
        return [
            *lines,
            f"{refusal_text}: {escape(answer['refused'])}. {previous_digest} stays active, all resources unchanged.",
        ]
    for change_kind, names in answer["resources"].items():
        if names:
            lines.append(f"{change_kind:9}  {len(names):3}  {' '.join(names)}   ({_NOTES[change_kind]})")
        resource_changes = {name: answer["changes"].get(name, ()) for name in names}
        lines += [f"{'':16}{name}: {'; '.join(resource_changes[name])}" for name in names if resource_changes[name]]
    if dry and previous_digest == current_digest:
        return [*lines, f"configuration {previous_digest} is active and unchanged"]
    if dry:
        return [*lines, f"configuration {previous_digest} → {current_digest} would be applied; nothing changed"]
    milliseconds = answer["seconds"] * 1000
    if previous_digest == current_digest:
        return [
            *lines,
            f"configuration {previous_digest} is active and unchanged, loaded again in {milliseconds:.0f} ms",
        ]
    return [*lines, f"configuration {previous_digest} → {current_digest} in {milliseconds:.0f} ms"]
