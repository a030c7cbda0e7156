"""Run the agent in the foreground until SIGTERM or SIGINT. systemd starts this command.

SIGHUP and `device-agent reload` load the configuration again. At the start, the agent leaves out files with errors. At
a reload, an error changes nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import os
import signal
import sys
from contextlib import suppress

import uvloop

from agent.app import Agent
from agent.cli.output import fail
from agent.config.load import Configuration, load
from agent.config.toml.finding import SETTINGS, Severity
from agent.control import control_socket, metrics_server
from agent.control.active_config import ActiveConfig, log_findings
from agent.control.commands import build_commands
from agent.control.take_snapshot import collect_metrics
from agent.core.message_id import NOTICE
from agent.host import open_files
from agent.host.daemon_thread import DaemonThreads
from agent.host.journal_log import JournalHandler, PriorityFormatter, is_journal
from agent.host.root import Root
from agent.single_instance import AlreadyRunning

QUIET = False
FAILED = 1
DEFECT = 70  # EX_SOFTWARE
START_SECONDS = 10.0  # the first garbage collection comes at the latest then
_FILE_LIMIT_ERROR = (
    "the limit of open files is {most}, but the agent needs at least {fewest}: ulimit -n 1024, LimitNOFILE of the unit"
)
UNUSABLE = 78  # EX_CONFIG; the systemd unit does not restart the agent after this code

log = logging.getLogger("agent")


def add(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `run`."""
    parser.add_argument(
        "--state", metavar="DIR", help="directory of the state file (default: paths.state in agent.toml)"
    )


def run(arguments: argparse.Namespace) -> int:
    """Serve until a signal stops the agent. Return the exit code."""
    try:
        return _run_agent(arguments)
    finally:
        gc.enable()


def _run_agent(arguments: argparse.Namespace) -> int:
    early_signals: list[int] = []
    signal.signal(signal.SIGHUP, lambda number, _: early_signals.append(number))
    if (file_limit := open_files.get_limit()) < open_files.LEAST_LIMIT:
        return fail(arguments, _FILE_LIMIT_ERROR.format(most=file_limit, fewest=open_files.LEAST_LIMIT), FAILED)
    configuration = load(arguments.config)
    log_to_stderr(configuration.settings.log.level)
    if any(f.severity is Severity.ERROR and f.file == SETTINGS for f in configuration.findings):
        log_findings(configuration.findings)
        return UNUSABLE
    log_findings(configuration.findings)
    state = arguments.state or configuration.settings.paths.state
    code = 0
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_serve(configuration, arguments.config, Root(arguments.root), state, early_signals))
    except* AlreadyRunning as error:
        log.error("%s", error.exceptions[0])  # noqa: TRY400  a person's mistake, no defect
        code = FAILED
    except* Exception:
        log.critical("a defect ended the agent", exc_info=True)
        code = DEFECT
    return code


async def _serve(
    configuration: Configuration, directory: str, root: Root, state: str, early_signals: list[int]
) -> None:
    loop = asyncio.get_running_loop()
    loop.set_default_executor(DaemonThreads())  # a blocked disk read does not delay the end of the process
    agent = Agent(configuration, root, state)
    active_config = ActiveConfig(agent, directory)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, agent.stop)
    loop.add_signal_handler(signal.SIGHUP, active_config.request_reload)
    if early_signals:  # the agent may have read the files before the signal
        active_config.request_reload()
    async with asyncio.TaskGroup() as tasks:
        service_tasks = (
            tasks.create_task(active_config.run()),
            tasks.create_task(control_socket.serve(agent.settings.paths.control, build_commands(active_config, agent))),
            tasks.create_task(metrics_server.serve(agent.settings.metrics.listen, lambda: collect_metrics(agent))),
            tasks.create_task(_collect_garbage(agent)),
        )
        await agent.run()
        for task in service_tasks:
            task.cancel()


async def _collect_garbage(agent: Agent) -> None:
    """Collect garbage when the agent is ready and the kubelet has the first lists, or after START_SECONDS.

    Imported modules and loaded data stay in memory. Repeated collections of them would take a tenth of the start time.
    After this collection, all existing objects are excluded from later collections.
    """
    with suppress(TimeoutError):
        async with asyncio.timeout(START_SECONDS):
            await agent.status.ready_sent.wait()
            await agent.status.wait_for_arrival()
    gc.enable()
    gc.collect()
    gc.freeze()


def log_to_stderr(level: str) -> None:
    """Send log lines to stderr with the time. If stderr is the journal, send fields and priorities instead."""
    logging.addLevelName(NOTICE, "NOTICE")
    handler: logging.Handler = logging.StreamHandler(sys.stderr)
    if is_journal(os.environ, 2):
        handler.setFormatter(PriorityFormatter())
        handler = JournalHandler(handler)
    else:
        handler.setFormatter(logging.Formatter(PLAIN_FORMAT))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)


PLAIN_FORMAT = "%(asctime)s %(levelname)-7s %(message)s"
