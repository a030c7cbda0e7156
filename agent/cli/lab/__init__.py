"""An agent and a simulated kubelet in one process, with this machine's devices: try it without a cluster.

Everything is in a private directory that is gone at the end; nothing on the machine is changed, and an ordinary user
can do it. With --config your own configuration is tried, else one is made of what is here. Type help for the words;
lines can come through a pipe as well:  echo allocate lab.example/fuse | device-agent lab
Exit code 0: ended. 1: a line or a step of the demo that did not go as it should.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys

import uvloop

from agent.cli.lab.configuration import entries, write
from agent.cli.lab.demo import Demo
from agent.cli.lab.lab import Lab, running
from agent.cli.lab.lab_directories import private
from agent.cli.lab.line_input import terminal_kept
from agent.cli.lab.session import Session, logged
from agent.cli.terminal import Terminal
from agent.config.toml.finding import render
from agent.host.root import Root

FAILED = 1
TERMINATED = 128 + signal.SIGTERM
DEFAULTS = {"config": ""}  # that of this machine's agent is tried only when it is asked for


def add(parser: argparse.ArgumentParser) -> None:
    """The flags of `lab`."""
    parser.add_argument("--demo", action="store_true", help="six steps that show what it does, and end")
    parser.add_argument("--write", metavar="DIR", help="write the configuration made for this machine there, and end")


def run(arguments: argparse.Namespace) -> int:
    """Open the lab, or show the demo."""
    root = Root(arguments.root)
    if arguments.write:
        return _write(root, arguments.write)
    user = os.path.abspath(arguments.config) if arguments.config else ""
    try:
        with terminal_kept(), asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(_open(root, user, arguments))
    except asyncio.CancelledError:
        return TERMINATED


async def _open(root: Root, user: str, arguments: argparse.Namespace) -> int:
    terminal = Terminal.of(sys.stdout, colour=arguments.color, utc=arguments.utc)
    task = asyncio.current_task()
    if task is not None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    try:
        with private() as place:
            session = Session(terminal)
            lab = Lab(place, root, user, None if arguments.demo else session.heard)
            for finding in lab.configuration.findings:
                print(render(finding), file=sys.stderr)
            if not lab.configuration.resources:
                print("device-agent lab: there is no resource to serve", file=sys.stderr)
                return FAILED
            with logged(None if arguments.demo else session.logged):
                async with running(lab):
                    if arguments.demo:
                        return await Demo(lab, terminal, lambda line: print(terminal.text(line), flush=True)).run()
                    return await session.run(lab)
    except OSError as error:
        print(f"device-agent lab: {error}", file=sys.stderr)
        return FAILED


def _write(root: Root, directory: str) -> int:
    try:
        if os.path.lexists(os.path.join(directory, "resources.d", "lab.toml")):
            print(f"device-agent lab: {directory}/resources.d/lab.toml is there already", file=sys.stderr)
            return FAILED
        write(directory, "lab.toml", list(entries(root)))
    except OSError as error:
        print(f"device-agent lab: {error}", file=sys.stderr)
        return FAILED
    print(f"wrote {directory}/resources.d/lab.toml   next: device-agent check --config {directory}")
    return 0
