"""Run the agent itself, in the foreground, until SIGTERM or SIGINT. systemd starts this.

SIGHUP reads the configuration again and applies what differs. Files with errors are left out at the start; at a
reload they keep everything as it was.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import signal
import sys
import time

import uvloop

from agent.app import Agent, AlreadyRunning
from agent.config.finding import Severity, render
from agent.config.load import Configuration, load
from agent.host import systemd
from agent.host.root import Root

FAILED = 1
DEFECT = 70  # EX_SOFTWARE
UNUSABLE = 78  # EX_CONFIG; the unit does not start again for it

log = logging.getLogger("agent")


def add(parser: argparse.ArgumentParser) -> None:
    """The flags of `run`."""
    parser.add_argument("--state", metavar="DIR", help="where to remember ids (default: agent.toml's paths.state)")


def run(arguments: argparse.Namespace) -> int:
    """Serve until told to stop."""
    early: list[int] = []
    signal.signal(signal.SIGHUP, lambda number, _: early.append(number))
    configuration = load(arguments.config)
    log_to_stderr(configuration.settings.log.level)
    if any(f.severity is Severity.ERROR and f.file == "agent.toml" for f in configuration.findings):
        say(configuration)
        return UNUSABLE
    say(configuration)
    state = arguments.state or configuration.settings.paths.state
    code = 0
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_serve(configuration, arguments.config, Root(arguments.root), state, early))
    except* AlreadyRunning as running:
        log.error("%s", running.exceptions[0])  # noqa: TRY400  a person's mistake, no defect
        code = FAILED
    except* Exception:
        log.critical("a defect ended the agent", exc_info=True)
        code = DEFECT
    return code


async def _serve(configuration: Configuration, directory: str, root: Root, state: str, early: list[int]) -> None:
    agent = Agent(configuration, root, state)
    loop = asyncio.get_running_loop()
    reloads = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, agent.stop)
    loop.add_signal_handler(signal.SIGHUP, reloads.set)
    if early:  # the files may have been read before it
        reloads.set()
    async with asyncio.TaskGroup() as tasks:
        reloading = tasks.create_task(_reload_when(reloads, agent, directory))
        await agent.run()
        reloading.cancel()


async def _reload_when(asked: asyncio.Event, agent: Agent, directory: str) -> None:
    """Reload each time it is asked for; what is asked during one is done after it."""
    while True:
        await asked.wait()
        await agent.status.told_ready.wait()  # systemd takes no RELOADING before READY
        asked.clear()
        systemd.notify(RELOADING=1, MONOTONIC_USEC=time.monotonic_ns() // 1000)
        configuration = await asyncio.to_thread(load, directory, in_force=agent.settings)
        errors = [finding for finding in configuration.findings if finding.severity is Severity.ERROR]
        say(configuration)
        resources = agent.settings.paths.resources
        if agent.configuration.resources and not await asyncio.to_thread(os.path.isdir, resources):
            # A configuration that is being put in place, or lost: nothing is taken from anybody for that.
            log.error("configuration: refused, %s stays: %s is not there", agent.configuration.digest, resources)
            agent.status.say(f"reload refused ({resources} is not there), {agent.configuration.digest} in force")
        elif errors:
            notice = f"reload refused ({len(errors)} errors), {agent.configuration.digest} in force"
            log.error("configuration: refused, %s stays: %d errors", agent.configuration.digest, len(errors))
            agent.status.say(notice)
        else:
            await agent.reload(configuration)
            agent.status.say("")
        systemd.notify(READY=1)


def say(configuration: Configuration) -> None:
    """Log what is to be said of a configuration; each finding as `check` prints it."""
    for finding in configuration.findings:
        level = logging.ERROR if finding.severity is Severity.ERROR else logging.WARNING
        log.log(level, "%s", render(finding))


def log_to_stderr(level: str) -> None:
    """Log lines to standard error; for journald with its priorities in front, for people with the time."""
    out = logging.StreamHandler(sys.stderr)
    out.setFormatter(JournalFormatter() if "JOURNAL_STREAM" in os.environ else logging.Formatter(PLAIN))
    logging.basicConfig(level=level.upper(), handlers=[out], force=True)


PLAIN = "%(asctime)s %(levelname)-7s %(message)s"
PRIORITIES = {logging.DEBUG: 7, logging.INFO: 6, logging.WARNING: 4, logging.ERROR: 3, logging.CRITICAL: 2}


class JournalFormatter(logging.Formatter):
    """`<N>` in front of each line, as sd-daemon(3) wants it."""

    def format(self, record: logging.LogRecord) -> str:
        """The record's lines."""
        mark = f"<{PRIORITIES.get(record.levelno, 6)}>"
        return "\n".join(mark + line for line in super().format(record).splitlines())
