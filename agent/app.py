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
from agent.core.message_id import NOTICE, MessageId, fields
from agent.core.reason import Reason
from agent.host import systemd
from agent.host.root import Root
from agent.kubelet.socket_file import remove_stale_sockets
from agent.registration.resource_tasks import RegistrationOptions, find_registration_options
from agent.single_instance import hold_instance_lock
from agent.status.agent_status import send_heartbeats
from agent.tracker.look_thread import where_to_look
from agent.wiring import AgentParts

ARRIVAL_SECONDS = 1.0  # so long what pods hold can wait for the first lists to be with the kubelet

log = logging.getLogger("agent")


class Agent:
    """One running agent.

    Args:
        configuration: what to serve.
        root: the host, or a tree in its place.
        state: the directory of the state file and the lock.
        programs: whether programs that entries name are run; else they count as run.
        clock: the monotonic seconds by which checks and lists are judged.
        held_ids: tells which IDs pods use, in place of the grants and PodResources.

    Attributes:
        configuration, configured_at: what is in force, and since when (monotonic).
        settings: those of the start, which stay in force.
        root: the host.
        started: when it was made (monotonic).
        parts: all of them; registry, status, counts, held, tracker, allocation, room: those that others ask.
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
        """Serve until `stop`; every socket and task is gone when this returns.

        Raises:
            AlreadyRunning: another agent has the state directory, or the kubelet's.
            ExceptionGroup: a defect; what can fail on a host or a kubelet does not end the agent.
        """
        with hold_instance_lock(self._state_directory, self.parts.kubelet_lock):
            async with self.parts.sockets, self.parts.path_watch:
                self.parts.path_watch.watch(where_to_look(self.root, self.tracker.specs))
                for directory in (self.settings.kubelet.dir, self.settings.kubelet.watcher_dir):
                    _remove_old_sockets(directory)
                async with asyncio.TaskGroup() as tasks:
                    await self._serve(tasks)

    @property
    def unsaved_reason(self) -> Reason:
        """Return why what is to outlast this life is not on disk; `NO_REASON` if it is."""
        return Reason.of(self.parts.state_file.fault, path=self.parts.state_file.path)

    async def drain(self, drain_set: DrainSet) -> bool:
        """Have all that taken out of scheduling, and nothing else; whether that is remembered over a restart."""
        await self.tracker.drain(drain_set)
        return await self.parts.state_file.wait_until_saved()

    def stop(self) -> None:
        """End in good order: streams first, then sockets, then everything else."""
        self._stopping.set()

    async def reload(self, configuration: Configuration) -> ConfigDiff:
        """Put a valid configuration in force by difference; resources that are not in it retire.

        Returns when the new lists are published; a new resource is registered only then, so that its first list is
        full. Settings of agent.toml are read at start only; what differs there is said in the log.
        """
        change = diff_config(self.configuration.resources, configuration.resources)
        if configuration.settings != self.settings:
            log.warning("agent.toml has changed: that takes effect at the next start")
        self._set_configuration(configuration)
        self.tracker.configure(configuration.resources)
        specs = configuration.resources
        self.parts.resource_tasks.keep(
            {spec.name: find_registration_options(spec, specs) for spec in specs if not spec.is_addition}
        )
        await self.tracker.looked()
        extra = fields(MessageId.CONFIGURED, config=configuration.digest)
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
        parts.publication.save_state()  # with what was granted since the last lists
        for work in work_tasks:
            work.cancel()

    async def _poll_pod_resources(self) -> None:
        """Ask what pods hold, once the kubelet has the first lists, or does not take them all.

        Until there is an answer all that is listed counts as held.
        """
        await self.tracker.looked()
        with suppress(TimeoutError):
            async with asyncio.timeout(ARRIVAL_SECONDS):
                await self.status.wait_for_arrival()
        await self.devices_in_use.run(self.parts.kubelet_socket)

    async def _start_serving(self) -> None:
        """Serve every resource, then say that the agent is ready.

        What the last life had listed is offered at once, all Unhealthy until it has been looked for: the kubelet's
        part of a registration takes as long as a look (docs/adr/0022-names-and-shares.md). Others' first lists are
        full.
        """
        sources = sorted({source.kind for spec in self.tracker.specs for source in spec.sources})
        self.status.activity = f"scanning {', '.join(sources)}" if sources else ""
        saved_lists = self.tracker.assembly.lists
        for snapshot in saved_lists.values():
            self.registry.publish(snapshot)
        # One that is taken out of the configuration, and held, may have been registered in either way.
        options_by_name = dict.fromkeys(saved_lists, RegistrationOptions(self.settings.kubelet.registration))
        self.parts.resource_tasks.add(options_by_name | self.parts.publication.build_registration_options(saved_lists))
        await self.tracker.looked()
        self.status.activity = ""
        self.parts.publication.offer_resources()
        while not self.status.has_started:
            await self.status.wait_for_change()
        self.status.set_ready()

    def _handle_defect(self, error: BaseException) -> None:
        """A defect met while answering the kubelet: the process ends with it, and systemd starts it again."""
        if self._failure and not self._failure.done():
            self._failure.set_exception(error)


def describe_ignored_files(findings: Sequence[Finding]) -> str:
    """Which files count for nothing because of their errors; empty if all count."""
    errors = [finding.file for finding in findings if finding.severity is Severity.ERROR]
    files = format_count(len(set(errors)), "file")
    return f"without {files} ({format_count(len(errors), 'error')}: device-agent check)" if errors else ""


async def _wait_for_failure(failure: asyncio.Future[None]) -> None:
    await failure


def _remove_old_sockets(directory: str) -> None:
    """Remove the sockets of earlier lives, as far as that can be done."""
    try:
        remove_stale_sockets(directory)
    except OSError as error:
        log.warning("sockets of an earlier life may be left: %s", error)
