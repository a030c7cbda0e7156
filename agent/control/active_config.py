"""The configuration in force: how another takes its place, asked for by a signal, a command, or the files themselves.

What is asked for is done one after the other; what is asked for during one is done after it, once. A configuration with
an error changes nothing.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Sequence

from agent.app import Agent
from agent.config.load import Configuration, load
from agent.config.toml.finding import Finding, Severity, render
from agent.config_diff import ConfigDiff, diff_config
from agent.core.language.safe_text import format_count
from agent.core.message_id import MessageId, fields
from agent.core.struct import Struct
from agent.host import systemd
from agent.host.inotify import PathWatch
from agent.host.root import Root

QUIET_SECONDS = 0.5  # after the last change to the files, before they are read: editors and copies take a while

log = logging.getLogger("agent")


class ReloadResult(Struct):
    """What became of a reload; `refused` says why it changed nothing.

    before, after: digests; equal if nothing changed. seconds: from reading the files to the new lists.
    """

    previous_digest: str
    current_digest: str
    diff: ConfigDiff | None = None
    refusal: str = ""
    findings: tuple[Finding, ...] = ()
    seconds: float = 0.0


class ActiveConfig:
    """Keeps an agent true to a directory of configuration, as far as it is asked to."""

    def __init__(self, agent: Agent, directory: str) -> None:
        self._agent = agent
        self._directory = os.path.abspath(directory)
        self._asked = asyncio.Event()
        self._waiting: list[asyncio.Future[ReloadResult]] = []
        self._quietly = False

    def request_reload(self) -> None:
        """Have the files read again, and say so whatever they say."""
        self._quietly = False
        self._asked.set()

    async def reload(self) -> ReloadResult:
        """Have the files read again, and return what came of it."""
        outcome: asyncio.Future[ReloadResult] = asyncio.get_running_loop().create_future()
        self._waiting.append(outcome)
        self.request_reload()
        return await outcome

    async def preview_reload(self) -> ReloadResult:
        """What a reload would do now; nothing is done."""
        began = time.monotonic()
        configuration = await self._load()
        before = self._agent.configuration
        refused = await self._refusal(configuration)
        change = None if refused else diff_config(before.resources, configuration.resources)
        seconds = time.monotonic() - began
        return ReloadResult(before.digest, configuration.digest, change, refused, configuration.findings, seconds)

    async def run(self) -> None:
        """Do what is asked for, until cancelled."""
        if not self._agent.settings.reload.watch:
            await self._follow()
            return
        async with PathWatch(Root(), self._files_changed, written=True) as watch:
            paths = self._agent.settings.paths
            watch.watch((self._directory, paths.resources, *paths.classes))
            await self._follow()

    async def _follow(self) -> None:
        while True:
            await self._asked.wait()
            await self._agent.status.ready_sent.wait()  # systemd takes no RELOADING before READY
            await self._until_quiet()
            self._asked.clear()
            quietly, self._quietly = self._quietly, False
            waiting, self._waiting = self._waiting, []
            loaded = await self._load() if quietly else None
            if loaded is not None and loaded.digest == self._agent.configuration.digest:
                continue
            outcome = await self._reload(loaded)
            for each in waiting:
                if not each.done():
                    each.set_result(outcome)

    async def _until_quiet(self) -> None:
        """Wait for the end of a run of changes, if it is the files that ask."""
        while self._quietly:
            self._asked.clear()
            try:
                async with asyncio.timeout(QUIET_SECONDS):
                    await self._asked.wait()
            except TimeoutError:
                return

    async def _reload(self, loaded: Configuration | None) -> ReloadResult:
        """Put in force what the files say; `loaded` is that, if they have been read already."""
        began = time.monotonic()
        agent, before = self._agent, self._agent.configuration.digest
        microseconds = time.monotonic_ns() // 1000
        systemd.notify(RELOADING=1, MONOTONIC_USEC=microseconds, STATUS=f"reloading {before}")
        configuration = loaded or await self._load()
        systemd.notify(STATUS=f"reloading {before} → {configuration.digest}")
        log_findings(configuration.findings)
        refused = await self._refusal(configuration)
        change = None
        if refused:
            extra = fields(MessageId.CONFIGURATION_REFUSED, config=before, reason=refused)
            log.error("configuration: refused, %s stays: %s", before, refused, extra=extra)
            agent.status.set_notice(f"reload refused ({refused}), {before} in force")
        else:
            change = await agent.reload(configuration)
            agent.status.set_notice("")
        systemd.notify(READY=1, STATUS=agent.status.format_line())
        seconds = time.monotonic() - began
        after = before if refused else configuration.digest
        return ReloadResult(before, after, change, refused, configuration.findings, seconds)

    async def _load(self) -> Configuration:
        return await asyncio.to_thread(load, self._directory, active_settings=self._agent.settings)

    async def _refusal(self, configuration: Configuration) -> str:
        """Why a configuration cannot take the place of the one in force; empty if it can."""
        resources = self._agent.settings.paths.resources
        if self._agent.configuration.resources and not await asyncio.to_thread(os.path.isdir, resources):
            # A configuration that is being put in place, or lost: nothing is taken from anybody for that.
            return f"{resources} is not there"
        errors = sum(finding.severity is Severity.ERROR for finding in configuration.findings)
        return format_count(errors, "error") if errors else ""

    def _files_changed(self, paths: frozenset[str], overflow: bool) -> None:  # noqa: FBT001  the watch's signature
        del paths, overflow
        if not self._asked.is_set():
            self._quietly = True
        self._asked.set()


def log_findings(findings: Sequence[Finding]) -> None:
    """Log findings, each as `check` prints it."""
    for finding in findings:
        level = logging.ERROR if finding.severity is Severity.ERROR else logging.WARNING
        log.log(level, "%s", render(finding))
