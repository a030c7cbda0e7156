"""An agent and a simulated kubelet in one process, with the devices of this machine. You need no cluster.

The lab writes only to a private directory, which it deletes at the end. It changes nothing on the machine, and an
ordinary user can run it. With --config it uses your configuration, else it writes one for this machine. Type help for
the commands. They can also come from a pipe:  echo allocate lab.example/fuse | device-agent lab
Exit code 0: ended. 1: a failed line, or a failed step of the demo.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys

import uvloop

from agent.cli.terminal import Terminal
from agent.config.toml.finding import render
from agent.host.root import Root
from device_agent_lab.command.configuration import build_entries, write_entries
from device_agent_lab.command.demo import Demo
from device_agent_lab.command.lab import Lab, run_lab
from device_agent_lab.command.lab_directories import open_private_directories
from device_agent_lab.command.session import Session, forward_log, restore_terminal

FAILED = 1
TERMINATED = 128 + signal.SIGTERM
DEFAULTS = {"config": ""}  # that of this machine's agent is tried only when it is asked for


def add(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `lab`."""
    parser.add_argument("--demo", action="store_true", help="run the six steps of the demo, and end")
    parser.add_argument("--write", metavar="DIR", help="write the configuration for this machine to DIR, and end")


def run(arguments: argparse.Namespace) -> int:
    """Open the lab, show the demo or write the configuration. Return the exit code."""
    root = Root(arguments.root)
    if arguments.write:
        return _write_configuration(root, arguments.write)
    user_directory = os.path.abspath(arguments.config) if arguments.config else ""
    try:
        with restore_terminal(), asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(_open_lab(root, user_directory, arguments))
    except asyncio.CancelledError:
        return TERMINATED


async def _open_lab(root: Root, user_directory: str, arguments: argparse.Namespace) -> int:
    terminal = Terminal.detect(sys.stdout, colour=arguments.color, utc=arguments.utc)
    task = asyncio.current_task()
    if task is not None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    try:
        with open_private_directories() as directories:
            session = Session(terminal)
            lab = Lab(directories, root, user_directory, None if arguments.demo else session.print_kubelet_event)
            for finding in lab.configuration.findings:
                print(render(finding), file=sys.stderr)
            if not lab.configuration.resources:
                print("device-agent lab: the configuration has no resource", file=sys.stderr)
                return FAILED
            with forward_log(None if arguments.demo else session.print_log_record):
                async with run_lab(lab):
                    if arguments.demo:
                        return await Demo(
                            lab, terminal, lambda line: print(terminal.make_displayable(line), flush=True)
                        ).run()
                    return await session.run(lab)
    except OSError as error:
        print(f"device-agent lab: {error}", file=sys.stderr)
        return FAILED


def _write_configuration(root: Root, directory: str) -> int:
    try:
        if os.path.lexists(os.path.join(directory, "resources.d", "lab.toml")):
            print(f"device-agent lab: {directory}/resources.d/lab.toml exists already", file=sys.stderr)
            return FAILED
        write_entries(directory, "lab.toml", list(build_entries(root)))
    except OSError as error:
        print(f"device-agent lab: {error}", file=sys.stderr)
        return FAILED
    print(f"wrote {directory}/resources.d/lab.toml   next: device-agent check --config {directory}")
    return 0
