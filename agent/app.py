"""The agent: the one place that knows all the parts and starts and ends them.

Three lives run through here (docs/architecture.md): a change on the host (monitor, tracker, registry, streams), an
Allocate (plugin, allocation, host) and an entry of the configuration (load, difference, tracker and registrations).
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import suppress

from agent.allocation.allocation import Allocation
from agent.allocation.devinfo import DevInfoFiles
from agent.allocation.held import Held
from agent.alone import alone
from agent.checks import command
from agent.checks.answers import Answers
from agent.checks.asking import Asking
from agent.checks.probes import Probes
from agent.config.load import Configuration
from agent.config.toml.finding import Finding, Severity
from agent.consequences import Consequences
from agent.core.entry.inquiry import Answer, Command, Question
from agent.core.health.conditions import Spot
from agent.core.health.drained import Drained
from agent.core.inventory.device import Snapshot
from agent.core.inventory.touched import EVERYTHING, Touched
from agent.core.kind import NOTICE, Kind, fields
from agent.core.language.printable import counted
from agent.core.lists.assemble import Assembly
from agent.core.lists.transition import Transition
from agent.counts import Counts
from agent.events import Events
from agent.host import systemd
from agent.host.cdi import SpecDirectories
from agent.host.claim import Claim
from agent.host.devinfo import DevInfoDirectory
from agent.host.inotify import PathWatch
from agent.host.presence import Presences
from agent.host.root import Root
from agent.host.udev import CONTROL as UDEV_CONTROL
from agent.kubelet import service
from agent.kubelet.socket_file import remove_stale
from agent.preparing import Preparing
from agent.registration.offering import Offering, Way, way_of
from agent.registry import Registry
from agent.reload import Difference, difference
from agent.scanners.answers import UNRUN
from agent.specs.own_specs import OwnSpecs
from agent.state.state import StateFile
from agent.state.state import load as load_state
from agent.status.room import Room
from agent.status.status import Status, heartbeat
from agent.tracker.looking import where_to_look
from agent.tracker.tracker import Tracker

KUBELET_SOCKET = "kubelet.sock"
ARRIVAL_SECONDS = 1.0  # so long what pods hold can wait for the first lists to be with the kubelet

log = logging.getLogger("agent")


class Agent:
    """One running agent.

    Args:
        configuration: what to serve.
        root: the host, or a tree in its place.
        state: the directory of the state file and the lock.
        programs: whether programs that entries name are run; else they count as run.

    Attributes:
        settings: those of the start, which stay in force.
        root: the host.
        started, configured_at: when it was made, and when the configuration in force was put there (monotonic).
        registry, status, counts, held, tracker, allocation, room: the parts, for those who show them.
    """

    def __init__(self, configuration: Configuration, root: Root, state: str, *, programs: bool = True) -> None:
        self.configuration = configuration
        self.started = self.configured_at = time.monotonic()
        self.counts = Counts()
        self.registry = Registry(self.counts)
        self.room = Room()
        self.status = Status(self.counts, lambda: self.held.holders, self._checks_of, self._evidence_of)
        settings = configuration.settings
        said = root.read("/proc/sys/kernel/random/boot_id")
        boot = said if isinstance(said, str) else ""
        remembered = load_state(state, boot)
        self.status.without = left_out(configuration.findings)
        self._state = state
        self.root = root
        self.settings = settings
        self._file = StateFile(state)
        self.held = Held(
            settings.kubelet.pod_resources,
            remembered.held,
            ours=lambda: self.tracker.assembly.snapshots.keys() | {spec.name for spec in self.tracker.specs},
            listed=lambda: self.tracker.assembly.snapshots,
            changed=self._held_changed,
        )
        cdi = SpecDirectories(settings.paths.cdi)
        self._own_specs = OwnSpecs(root, os.path.abspath(state), cdi, self._held_changed)
        self._preparing = Preparing(lambda keys: self.tracker.looked(Touched(keys=keys))) if programs else None
        self._answers = Answers(Asking(_ask), Probes())
        answers = self._answers if programs else UNRUN
        self.tracker = Tracker(
            root,
            self.registry,
            configuration.resources,
            remembered.lists,
            fanned=remembered.fanned,
            memory=remembered.memory,
            drained=remembered.drained,
            settle=settings.look.settle,
            every=settings.look.every,
            cdi=cdi,
            answers=answers,
            preparing=self._preparing,
            own_specs=self._own_specs,
            counts=self.counts,
            held=lambda: self.held.ids,
            known=lambda: self.held.known,
            published=self._published,
        )
        directory = DevInfoDirectory(f"{root.prefix}{settings.paths.devinfo}", state)
        self._devinfo = DevInfoFiles(directory, lambda: self.held.ids, self._want)
        self.allocation = Allocation(
            root,
            self.registry,
            self.tracker,
            self.held.granted,
            cdi=cdi,
            devinfo=self._devinfo,
            held=self.held,
            own_specs=self._own_specs,
            programs=programs,
            answers=answers,
            counts=self.counts,
            since=self.status.history.since,
        )
        self._sockets = Presences(
            os.path.join(settings.kubelet.dir, KUBELET_SOCKET),
            os.path.join(settings.kubelet.watcher_dir, KUBELET_SOCKET),
            UDEV_CONTROL,
        )
        self._kubelet, watcher, udev = self._sockets.all
        self._events = Events(root, self.tracker.nudge, udev, self.counts)
        self._nodes = PathWatch(root, self._paths_changed, written=True)
        self._claim = Claim(settings.kubelet.dir)
        self._offering = Offering(
            self.registry,
            self.allocation,
            self.status,
            kubelet=self._kubelet,
            watcher=watcher,
            claim=self._claim,
            unexpected=self._unexpected,
            forget=self._forget,
        )
        self._consequences = Consequences(
            self.tracker,
            self.held,
            self._devinfo,
            status=self.status,
            offering=self._offering,
            file=self._file,
            boot=boot,
            nodes=self._nodes,
            answers=self._answers,
        )
        self._stopping = asyncio.Event()
        self._failure: asyncio.Future[None] | None = None

    async def run(self) -> None:
        """Serve until `stop`; every socket and task is gone when this returns.

        Raises:
            AlreadyRunning: another agent has the state directory, or the kubelet's.
            ExceptionGroup: a defect; what can fail on a host or a kubelet does not end the agent.
        """
        with alone(self._state, self._claim):
            async with self._sockets, self._nodes:
                self._nodes.watch(where_to_look(self.root, self.tracker.specs))
                for directory in (self.settings.kubelet.dir, self.settings.kubelet.watcher_dir):
                    _sweep(directory)
                async with asyncio.TaskGroup() as tasks:
                    await self._serve(tasks)

    @property
    def unwritten(self) -> str:
        """Why what is to outlast this life is not on disk; empty if it is."""
        return self._file.fault

    async def drain(self, drained: Drained) -> bool:
        """Have all that taken out of scheduling, and nothing else; whether that is remembered over a restart."""
        await self.tracker.drain(drained)
        return await self._file.saved()

    def stop(self) -> None:
        """End in good order: streams first, then sockets, then everything else."""
        self._stopping.set()

    async def reload(self, configuration: Configuration) -> Difference:
        """Put a valid configuration in force by difference; resources that are not in it retire.

        Returns when the new lists are published; a new resource is registered only then, so that its first list is
        full. Settings of agent.toml are read at start only; what differs there is said in the log.
        """
        change = difference(self.configuration.resources, configuration.resources)
        if configuration.settings != self.settings:
            log.warning("agent.toml has changed: that takes effect at the next start")
        self.configuration, self.configured_at = configuration, time.monotonic()
        self.status.without = left_out(configuration.findings)
        self.tracker.configure(configuration.resources)
        specs = configuration.resources
        self._offering.keep({spec.name: way_of(spec, specs) for spec in specs if not spec.adds})
        await self.tracker.looked()
        extra = fields(Kind.CONFIGURED, config=configuration.digest)
        log.log(NOTICE, "configuration: %s: %s", configuration.digest, change, extra=extra)
        return change

    async def _serve(self, tasks: asyncio.TaskGroup) -> None:
        self._failure = asyncio.get_running_loop().create_future()
        listening = asyncio.Event()
        works = [tasks.create_task(self._events.run(listening))]
        await listening.wait()
        works += [
            tasks.create_task(work)
            for work in (
                self.tracker.run(),
                *([self._preparing.run()] if self._preparing else []),
                self._answers.run(self.tracker),
                self._ask_pods(),
                self._devinfo.run(),
                self._file.run(),
                self.status.tell_systemd(),
                heartbeat(),
                self.room.run(self.settings.look.every),
                self._sockets.run(self.settings.look.every),
                _raised(self._failure),
            )
        ]
        offering = tasks.create_task(self._offering.run(self._stopping))
        works.append(tasks.create_task(self._begin()))
        await self._stopping.wait()
        systemd.notify(STOPPING=1, STATUS=f"stopping: ending {counted(self._offering.offered, 'stream')}")
        await asyncio.wait([offering])
        self._consequences.remember()  # with what was granted since the last lists
        for work in works:
            work.cancel()

    async def _ask_pods(self) -> None:
        """Ask what pods hold, once the kubelet has the first lists, or does not take them all.

        Until there is an answer all that is listed counts as held.
        """
        await self.tracker.looked()
        with suppress(TimeoutError):
            async with asyncio.timeout(ARRIVAL_SECONDS):
                await self.status.arrived()
        await self.held.run(self._kubelet)

    async def _begin(self) -> None:
        """Serve every resource, then say that the agent is ready.

        What the last life had listed is offered at once, all Unhealthy until it has been looked for: the kubelet's
        part of a registration takes as long as a look (docs/adr/0022-names-and-shares.md). Others' first lists are
        full.
        """
        sources = sorted({source.kind for spec in self.tracker.specs for source in spec.sources})
        self.status.doing = f"scanning {', '.join(sources)}" if sources else ""
        told = self.tracker.assembly.snapshots
        for snapshot in told.values():
            self.registry.publish(snapshot)
        # One that is taken out of the configuration, and held, may have been registered in either way.
        self._offering.add(dict.fromkeys(told, Way(self.settings.kubelet.registration)) | self._consequences.ways(told))
        await self.tracker.looked()
        self.status.doing = ""
        self._consequences.offer()
        while not self.status.settled:
            await self.status.changed()
        self.status.ready()

    def _published(self, before: Mapping[str, Snapshot], assembly: Assembly) -> None:
        self._consequences.published(before, assembly)

    def _want(self) -> None:
        self._consequences.want()

    def _forget(self, resource: str) -> None:
        self.tracker.drop(resource)
        self.counts.forget(resource)

    def _held_changed(self) -> None:
        self.tracker.reassemble()
        self._devinfo.stir()

    def _paths_changed(self, paths: frozenset[str], overflow: bool) -> None:  # noqa: FBT001  the watch's signature
        self._events.told("inotify", EVERYTHING if overflow else Touched(paths))
        own = self._own_specs.directory
        if overflow or any(path == own or path.startswith(f"{own}/") for path in paths):
            self._own_specs.touched()

    def _checks_of(self, resource: str) -> frozenset[str]:
        entry = self.tracker.entry_of(resource)
        return frozenset(check.name for check in entry.checks) if entry else frozenset()

    def _evidence_of(self, change: Transition, check: str) -> str:
        entry = self.tracker.assembly.written.get(change.resource) or change.resource
        ward = self.tracker.conditions.there.get(Spot(entry, change.key))
        condition = ward.conditions.get(check) if ward else None
        return condition.evidence if condition else ""

    def _unexpected(self, error: BaseException) -> None:
        """A defect met while answering the kubelet: the process ends with it, and systemd starts it again."""
        if self._failure and not self._failure.done():
            self._failure.set_exception(error)


def left_out(findings: Sequence[Finding]) -> str:
    """Which files count for nothing because of their errors; empty if all count."""
    errors = [finding.file for finding in findings if finding.severity is Severity.ERROR]
    files = counted(len(set(errors)), "file")
    return f"without {files} ({counted(len(errors), 'error')}: device-agent check)" if errors else ""


def _ask(question: Question) -> AsyncGenerator[Answer, None]:
    """Ask whom a question is for."""
    return command.ask(question) if isinstance(question, Command) else service.ask(question)


async def _raised(failure: asyncio.Future[None]) -> None:
    await failure


def _sweep(directory: str) -> None:
    """Remove the sockets of earlier lives, as far as that can be done."""
    try:
        remove_stale(directory)
    except OSError as error:
        log.warning("sockets of an earlier life may be left: %s", error)
