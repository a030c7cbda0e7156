"""Show the status of the agent on the whole terminal, and refresh it every second. Press q to end.

Press up and down to select a resource. Its devices and their pods appear below. Press / to filter, s to sort, u to show
only problems, and ? for help. The command changes nothing.
Sends requests to the running agent, as root.
Exit code 0: success. 2: the output is no terminal (use status). 3: no agent is running. 5: no permission.
"""

from __future__ import annotations

import argparse
import os
import select
import shutil
import sys
import termios
import tty
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import cast

from agent.cli.agent_client import AgentUnreachable, ask_agent, find_control_socket, send_request
from agent.cli.output import fail
from agent.cli.terminal import Terminal
from agent.cli.top_screen import TopView, apply_key, format_screen, select_resources
from agent.control.control_socket import ControlAnswer
from agent.core.struct import replace

QUIET = False
NO_TERMINAL = 2
REFRESH_SECONDS = 1.0  # between two refreshes
ANSWER_SECONDS = 5.0


def add(parser: argparse.ArgumentParser) -> None:
    """Add no arguments."""
    del parser


def run(arguments: argparse.Namespace) -> int:
    """Show the status until the user presses q. Return the exit code."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return fail(arguments, "the output is no terminal; use device-agent status", NO_TERMINAL)
    answer = ask_agent(arguments, {"do": "status", "devices": ""})
    if isinstance(answer, int):
        return answer
    path = find_control_socket(arguments)
    view: TopView | None = TopView()
    with _open_screen():
        while view is not None:
            names = [resource["name"] for resource in select_resources(answer, view)]
            if view.chosen_resource not in names:
                view = replace(view, chosen_resource=names[0] if names else "")
            response = send_request(
                path, {"do": "status", "devices": view.chosen_resource if view.shows_devices else ""}, ANSWER_SECONDS
            )
            failure = response.reason if isinstance(response, AgentUnreachable) else str(response.get("error", ""))
            answer = answer if failure else cast("ControlAnswer", response)
            terminal = Terminal.detect(sys.stdout, colour=arguments.color, utc=arguments.utc)
            _paint(format_screen(answer, view, failure, terminal, shutil.get_terminal_size().lines))
            key = _read_key()
            view = view if key is None else apply_key(view, key, answer)
    return 0


def _paint(lines: Sequence[str]) -> None:
    """Write each line over the old line, so that the screen does not flicker.

    The terminal cuts long lines, because wrapping is off.
    """
    screen_text = "\r\n".join(f"{line}\033[K" for line in lines)
    sys.stdout.write(f"\033[H{screen_text}\033[J")
    sys.stdout.flush()


def _read_key() -> bytes | None:
    """Return the next key, or None if no key comes before the next refresh."""
    if not select.select([sys.stdin], [], [], REFRESH_SECONDS)[0]:
        return None
    return os.read(sys.stdin.fileno(), 8) or b"q"


@contextmanager
def _open_screen() -> Iterator[None]:
    """Switch to the alternate screen and read keys without line buffering. Restore the terminal at the end."""
    keyboard = sys.stdin.fileno()
    previous_settings = termios.tcgetattr(keyboard)
    try:
        tty.setcbreak(keyboard)
        sys.stdout.write("\033[?1049h\033[?25l\033[?7l")
        yield
    finally:
        sys.stdout.write("\033[?7h\033[?25h\033[?1049l")
        sys.stdout.flush()
        termios.tcsetattr(keyboard, termios.TCSADRAIN, previous_settings)
