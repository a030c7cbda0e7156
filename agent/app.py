"""The agent: in which order its parts begin, live and end. Which parts there are: `agent.wiring`.

Three lives run through them (docs/architecture.md): a change on the host (monitor, tracker, registry, streams), an
Allocate (plugin, allocation, host) and an entry of the configuration (load, difference, tracker and registrations).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from agent.allocation.devices_in_use import HeldIdSource
from agent.config.load import Configuration
from agent.config.toml.finding import Finding, Severity
from agent.config_diff import ConfigDiff, diff_config
from agent.core.health.drain_overlay import DrainSet
from agent.core.language.safe_text import format_count
from agent.core.message_id import NOTICE, MessageId, build_log_extra
from agent.core.reason import Reason
from agent.host import systemd
from agent.host.root import Root
from agent.kubelet.socket_file import remove_stale_sockets
from agent.publishers import find_publishers
from agent.publishers.registrations import build_registration_options, offer_resources
from agent.registration.resource_tasks import RegistrationOptions, find_registration_options
from agent.single_instance import hold_instance_lock
from agent.status.agent_status import send_heartbeats
from agent.tracker.look_thread import list_device_directories
from agent.wiring import AgentParts

ARRIVAL_SECONDS = 1.0  # longest time that PodResources waits for the arrival of the first lists

log = logging.getLogger("agent")


class Agent:
    """One running agent.

    Args:
        configuration: the first active configuration.
        root: the host, or a tree in its place.
        state_directory: the directory of the state file and the lock.
        runs_programs: the agent runs the programs of entries. If False, each program counts as successful.
        clock: returns monotonic seconds. Checks and lists use this time.
        held_ids: the IDs that pods use, in place of the grants and PodResources.

    Attributes:
        configuration, configured_at: the active configuration, and the monotonic time since when it is active.
        settings: the settings of `agent.toml` at the start. They stay active until the end.
        root: the host.
        started: the monotonic time at which the agent was created.
        parts: all parts. registry, status, counters, devices_in_use, tracker, allocation, open_files: parts for other
            modules.
    """

    def __init__(
        self,
        configuration: Configuration,
        root: Root,
        state_directory: str,
        *,
        runs_programs: bool = True,
        clock: Callable[[], float] = time.monotonic,
        held_ids: HeldIdSource | None = None,
    ) -> None:
        self.started = time.monotonic()
        self.root = root
        self.settings = configuration.settings
        self.parts = AgentParts(
            configuration,
            root,
            state_directory,
            runs_programs=runs_programs,
            on_defect=self._handle_defect,
            publishers=find_publishers(),
            clock=clock,
            held_ids=held_ids,
        )
        self.registry, self.counters, self.status = self.parts.registry, self.parts.counters, self.parts.status
        self.devices_in_use, self.tracker, self.allocation = (
            self.parts.devices_in_use,
            self.parts.tracker,
            self.parts.allocation,
        )
        self.open_files = self.parts.open_files
        self._set_configuration(configuration)
        self._state_directory = state_directory
        self._stopping = asyncio.Event()
        self._failure: asyncio.Future[None] | None = None

    async def run(self) -> None:
        """Serve until `stop`. Every socket and task has ended when this returns.

        Raises:
            AlreadyRunning: another agent uses the state directory or the kubelet's directory.
            ExceptionGroup: a defect. A failure of the host or the kubelet does not end the agent.
        """
        with hold_instance_lock(self._state_directory, self.parts.kubelet_lock):
            async with self.parts.sockets, self.parts.path_watch:
                self.parts.path_watch.watch(list_device_directories(self.root, self.tracker.specs))
                for directory in (self.settings.kubelet.dir, self.settings.kubelet.watcher_dir):
                    _remove_old_sockets(directory)
                async with asyncio.TaskGroup() as tasks:
                    await self._serve(tasks)

    @property
    def unsaved_reason(self) -> Reason:
        """Return the reason why the newest state is not on disk, or `NO_REASON` if it is."""
        return Reason.from_text(self.parts.state_file.fault, path=self.parts.state_file.path)

    async def drain(self, drain_set: DrainSet) -> bool:
        """Replace all drains by these. Return whether they are saved for the next start."""
        await self.tracker.set_drains(drain_set)
        return await self.parts.state_file.wait_until_saved()

    def stop(self) -> None:
        """End in order: streams first, then sockets, then all other tasks."""
        self._stopping.set()

    async def reload(self, configuration: Configuration) -> ConfigDiff:
        """Make a valid configuration active and return the difference. Resources that it does not contain retire.

        Return after the new lists are published. A new resource is registered only then, so that its first list is
        complete. Settings of `agent.toml` are read only at the start. The log names a difference in them.
        """
        change = diff_config(self.configuration.resources, configuration.resources)
        if configuration.settings != self.settings:
            log.warning("agent.toml has changed. The change takes effect at the next start")
        self._set_configuration(configuration)
        self.tracker.configure(configuration.resources)
        specs = configuration.resources
        self.parts.resource_tasks.keep(
            {spec.name: find_registration_options(spec, specs) for spec in specs if not spec.is_addition}
        )
        await self.tracker.wait_for_look()
        extra = build_log_extra(MessageId.CONFIGURED, config=configuration.digest)
        log.log(NOTICE, "configuration: %s: %s", configuration.digest, change, extra=extra)
        return change

    def _set_configuration(self, configuration: Configuration) -> None:
        self.configuration, self.configured_at = configuration, time.monotonic()
        self.status.ignored_files = describe_ignored_files(configuration.findings)

    async def _serve(self, tasks: asyncio.TaskGroup) -> None:
        parts = self.parts
        self._failure = asyncio.get_running_loop().create_future()
        listening = asyncio.Event()
        work_tasks = [tasks.create_task(parts.kernel_events.run(listening))]
        await listening.wait()
        work_tasks += [
            tasks.create_task(work)
            for work in (
                self.tracker.run(),
                *([parts.prepare_runner.run()] if parts.prepare_runner else []),
                parts.query_results.run(self.tracker),
                self._poll_pod_resources(),
                parts.devinfo_files.run(),
                parts.state_file.run(),
                self.status.update_systemd(),
                send_heartbeats(),
                parts.open_files.run(self.settings.look.rescan_interval),
                parts.sockets.run(self.settings.look.rescan_interval),
                _wait_for_failure(self._failure),
            )
        ]
        offer_task = tasks.create_task(parts.resource_tasks.run(self._stopping))
        work_tasks.append(tasks.create_task(self._start_serving()))
        await self._stopping.wait()
        systemd.notify(STOPPING=1, STATUS=f"stopping: ending {format_count(parts.resource_tasks.count, 'stream')}")
        await asyncio.wait([offer_task])
        parts.save_state()  # with the grants since the last lists
        for work in work_tasks:
            work.cancel()

    async def _poll_pod_resources(self) -> None:
        """Ask PodResources after the kubelet has the first lists, or after ARRIVAL_SECONDS.

        Until there is an answer, all listed IDs count as held.
        """
        await self.tracker.wait_for_look()
        with suppress(TimeoutError):
            async with asyncio.timeout(ARRIVAL_SECONDS):
                await self.status.wait_for_arrival()
        await self.devices_in_use.run(self.parts.kubelet_socket)

    async def _start_serving(self) -> None:
        """Serve every resource, then report that the agent is ready.

        The saved lists of the previous start are offered at once, with all devices Unhealthy until the first look. The
        kubelet needs as much time for a registration as a look takes (docs/adr/0022-names-and-shares.md). The first
        lists of all other resources are complete.
        """
        sources = sorted({source.kind for spec in self.tracker.specs for source in spec.sources})
        self.status.activity = f"scanning {', '.join(sources)}" if sources else ""
        saved_lists = self.tracker.device_lists.lists
        for snapshot in saved_lists.values():
            self.registry.publish(snapshot)
        # A held resource without an entry may have been registered by either method.
        options_by_name = dict.fromkeys(saved_lists, RegistrationOptions(self.settings.kubelet.registration))
        self.parts.resource_tasks.add(options_by_name | build_registration_options(self.parts, saved_lists))
        await self.tracker.wait_for_look()
        self.status.activity = ""
        offer_resources(self.parts)
        while not self.status.has_started:
            await self.status.wait_for_change()
        self.status.set_ready()

    def _handle_defect(self, error: BaseException) -> None:
        """Report a defect of a call from the kubelet. The process then ends, and systemd starts a new one."""
        if self._failure and not self._failure.done():
            self._failure.set_exception(error)


def describe_ignored_files(findings: Sequence[Finding]) -> str:
    """Return a text that counts the files that are ignored because of errors, or an empty string."""
    errors = [finding.file for finding in findings if finding.severity is Severity.ERROR]
    files = format_count(len(set(errors)), "file")
    return f"without {files} ({format_count(len(errors), 'error')}: device-agent check)" if errors else ""


async def _wait_for_failure(failure: asyncio.Future[None]) -> None:
    await failure


def _remove_old_sockets(directory: str) -> None:
    """Remove the sockets of earlier processes. Log a failure."""
    try:
        remove_stale_sockets(directory)
    except OSError as error:
        log.warning("sockets of an earlier agent process may remain: %s", error)
