"""The status of the agent, live: repainted each second, q ends. It asks, and changes nothing.

Up and down choose a resource, whose devices and pods are shown below. Asks the running agent, as root.
Exit code 0: ended. 2: this is no terminal (use status). 3: no agent is running. 5: no permission.
"""

from __future__ import annotations

import argparse
import os
import select
import sys
import termios
import tty
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from agent.cli.asking import Unreachable, asked, reached
from agent.cli.status import device_table, lines
from agent.cli.terminal import Terminal
from agent.config.load import load
from agent.control import Answer
from agent.core.language.printable import escape

QUIET = False
NO_TERMINAL = 2
SECONDS = 1.0  # between two pictures
ANSWER_SECONDS = 5.0
_UP, _DOWN, _END = (b"\x1b[A", b"k"), (b"\x1b[B", b"j"), (b"q", b"Q", b"\x03", b"\x04")
_KEYS = "up, down: resource   q: end"


def add(parser: argparse.ArgumentParser) -> None:
    """No arguments."""
    del parser


def run(arguments: argparse.Namespace) -> int:
    """Ask and paint, until q."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        print("device-agent top: this is no terminal; device-agent status says the same once", file=sys.stderr)
        return NO_TERMINAL
    answer = asked(arguments, {"do": "status", "devices": ""})
    if isinstance(answer, int):
        return answer
    path = load(arguments.config).settings.paths.control
    chosen = 0
    with _screen():
        while True:
            name = answer["resources"][chosen]["name"] if answer["resources"] else ""
            said = reached(path, {"do": "status", "devices": name}, ANSWER_SECONDS)
            gone = said.reason if isinstance(said, Unreachable) else ""
            answer = answer if isinstance(said, Unreachable) else said
            last = max(0, len(answer["resources"]) - 1)
            chosen = min(chosen, last)
            terminal = Terminal.of(sys.stdout, colour=arguments.color, utc=arguments.utc)
            size = os.get_terminal_size(sys.stdout.fileno())
            _paint(picture(answer, chosen, gone, terminal, size.lines), terminal)
            key = _key()
            if key in _END:
                return 0
            chosen = max(0, min(chosen + (key in _DOWN) - (key in _UP), last))


def picture(answer: Answer, chosen: int, gone: str, terminal: Terminal, height: int) -> list[str]:
    """What is on a screen of that height: a status, and below it the devices of a resource, as far as they fit.

    gone: why the agent does not answer any more; empty if it does.
    """
    shown = lines(answer, terminal, chosen=chosen)
    if gone:
        shown.insert(0, terminal.style(escape(f"not of now: {gone}"), "red"))
    if answer["resources"]:
        shown += device_table(answer, answer["resources"][chosen], terminal)
    kept = shown[: height - 1]
    return [*kept, *[""] * (height - 1 - len(kept)), _KEYS]


def _paint(picture: Sequence[str], terminal: Terminal) -> None:
    """Line over line: nothing flickers. What is too long the terminal cuts, for it does not wrap here."""
    painted = "\r\n".join(f"{terminal.text(line)}\033[K" for line in picture)
    sys.stdout.write(f"\033[H{painted}\033[J")
    sys.stdout.flush()


def _key() -> bytes | None:
    """The next key, if one comes before it is time for another picture."""
    if not select.select([sys.stdin], [], [], SECONDS)[0]:
        return None
    return os.read(sys.stdin.fileno(), 8) or b"q"


@contextmanager
def _screen() -> Iterator[None]:
    """The terminal's other screen, with keys as they come; everything as before at the end."""
    keyboard = sys.stdin.fileno()
    before = termios.tcgetattr(keyboard)
    try:
        tty.setcbreak(keyboard)
        sys.stdout.write("\033[?1049h\033[?25l\033[?7l")
        yield
    finally:
        sys.stdout.write("\033[?7h\033[?25h\033[?1049l")
        sys.stdout.flush()
        termios.tcsetattr(keyboard, termios.TCSADRAIN, before)
