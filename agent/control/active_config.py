"""The active configuration, and its replacement after a signal, a command, or a change of the files.

Requests run one after another. All requests during a reload lead to one more reload. A configuration with an error
changes nothing.
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
from agent.core.message_id import MessageId, build_log_extra
from agent.core.struct import Struct
from agent.host import systemd
from agent.host.inotify import PathWatch
from agent.host.root import Root

QUIET_SECONDS = 0.5  # from the last change of the files to the read, because editors and copies need time

log = logging.getLogger("agent")


class ReloadResult(Struct):
    """The result of a reload. `refusal` is the reason why nothing changed.

    previous_digest, current_digest: equal if nothing changed. seconds: from the read of the files to the new lists.
    """

    previous_digest: str
    current_digest: str
    diff: ConfigDiff | None = None
    refusal: str = ""
    findings: tuple[Finding, ...] = ()
    seconds: float = 0.0


class ActiveConfig:
    """The configuration of an agent, loaded from a directory on request."""

    def __init__(self, agent: Agent, directory: str) -> None:
        self._agent = agent
        self._directory = os.path.abspath(directory)
        self._reload_needed = asyncio.Event()
        self._waiting_results: list[asyncio.Future[ReloadResult]] = []
        self._is_file_change = False

    def request_reload(self) -> None:
        """Request a reload. The log shows the result, even if the files are unchanged."""
        self._is_file_change = False
        self._reload_needed.set()

    async def reload(self) -> ReloadResult:
        """Reload the files and return the result."""
        result: asyncio.Future[ReloadResult] = asyncio.get_running_loop().create_future()
        self._waiting_results.append(result)
        self.request_reload()
        return await result

    async def preview_reload(self) -> ReloadResult:
        """Return the result that a reload would have now. Change nothing."""
        start_time = time.monotonic()
        configuration = await self._load()
        active = self._agent.configuration
        refusal = await self._find_refusal(configuration)
        diff = None if refusal else diff_config(active.resources, configuration.resources)
        seconds = time.monotonic() - start_time
        return ReloadResult(active.digest, configuration.digest, diff, refusal, configuration.findings, seconds)

    async def run(self) -> None:
        """Handle requests until cancelled."""
        if not self._agent.settings.reload.watch:
            await self._handle_requests()
            return
        async with PathWatch(Root(), self._handle_file_change, written=True) as watch:
            paths = self._agent.settings.paths
            watch.watch((self._directory, paths.resources, *paths.classes))
            await self._handle_requests()

    async def _handle_requests(self) -> None:
        while True:
            await self._reload_needed.wait()
            await self._agent.status.ready_sent.wait()  # systemd takes no RELOADING before READY
            await self._wait_for_quiet_files()
            self._reload_needed.clear()
            is_file_change, self._is_file_change = self._is_file_change, False
            waiting, self._waiting_results = self._waiting_results, []
            loaded = await self._load() if is_file_change else None
            if loaded is not None and loaded.digest == self._agent.configuration.digest:
                continue
            reload_result = await self._reload(loaded)
            for result in waiting:
                if not result.done():
                    result.set_result(reload_result)

    async def _wait_for_quiet_files(self) -> None:
        """Wait for the end of a series of changes, if the files caused the request."""
        while self._is_file_change:
            self._reload_needed.clear()
            try:
                async with asyncio.timeout(QUIET_SECONDS):
                    await self._reload_needed.wait()
            except TimeoutError:
                return

    async def _reload(self, configuration_from_files: Configuration | None) -> ReloadResult:
        """Make the configuration of the files active. Use `configuration_from_files` if the files are already read."""
        start_time = time.monotonic()
        agent, previous_digest = self._agent, self._agent.configuration.digest
        microseconds = time.monotonic_ns() // 1000
        systemd.notify(RELOADING=1, MONOTONIC_USEC=microseconds, STATUS=f"reloading {previous_digest}")
        configuration = configuration_from_files or await self._load()
        systemd.notify(STATUS=f"reloading {previous_digest} → {configuration.digest}")
        log_findings(configuration.findings)
        refusal = await self._find_refusal(configuration)
        diff = None
        if refusal:
            extra = build_log_extra(MessageId.CONFIGURATION_REFUSED, config=previous_digest, reason=refusal)
            log.error("configuration: refused, %s stays active: %s", previous_digest, refusal, extra=extra)
            agent.status.set_notice(f"reload refused ({refusal}), {previous_digest} stays active")
        else:
            diff = await agent.reload(configuration)
            agent.status.set_notice("")
        systemd.notify(READY=1, STATUS=agent.status.format_line())
        seconds = time.monotonic() - start_time
        current_digest = previous_digest if refusal else configuration.digest
        return ReloadResult(previous_digest, current_digest, diff, refusal, configuration.findings, seconds)

    async def _load(self) -> Configuration:
        return await asyncio.to_thread(load, self._directory, active_settings=self._agent.settings)

    async def _find_refusal(self, configuration: Configuration) -> str:
        """Return the reason why a configuration cannot become active, or an empty string."""
        resources = self._agent.settings.paths.resources
        if self._agent.configuration.resources and not await asyncio.to_thread(os.path.isdir, resources):
            # The configuration is being installed, or is lost. No device is removed for that.
            return f"{resources} does not exist"
        errors = sum(finding.severity is Severity.ERROR for finding in configuration.findings)
        return format_count(errors, "error") if errors else ""

    def _handle_file_change(self, paths: frozenset[str], overflow: bool) -> None:  # noqa: FBT001  the watch's signature
        del paths, overflow
        if not self._reload_needed.is_set():
            self._is_file_change = True
        self._reload_needed.set()


def log_findings(findings: Sequence[Finding]) -> None:
    """Log findings in the form of `check`."""
    for finding in findings:
        level = logging.ERROR if finding.severity is Severity.ERROR else logging.WARNING
        log.log(level, "%s", render(finding))
