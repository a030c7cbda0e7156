"""The agent: the one place that knows all the parts and starts and ends them.

Three lives run through here (docs/architecture.md): a change on the host (monitor, tracker, registry, streams), an
Allocate (plugin, allocation, host) and an entry of the configuration (load, difference, tracker and registrations).
"""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
import time
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, closing, contextmanager
from functools import partial

from agent.allocation import Allocation
from agent.checks import command
from agent.checks.answers import Answers
from agent.checks.asking import Asking
from agent.checks.probes import Probes
from agent.config.load import Configuration
from agent.core.entry.inquiry import Answer, Command, Question
from agent.core.entry.resource import ResourceSpec
from agent.core.health.drained import Drained
from agent.core.inventory.device import Health, Snapshot
from agent.core.inventory.touched import EVERYTHING, Touched
from agent.core.language.printable import counted
from agent.core.language.value import Absent
from agent.core.lists.assemble import Assembly
from agent.core.lists.expect import short
from agent.core.lists.topology import silence
from agent.counts import Counts
from agent.devinfo import DevInfoFiles
from agent.held import Held
from agent.host import systemd
from agent.host.cdi import SpecDirectories
from agent.host.claim import Claim, Taken
from agent.host.devinfo import DevInfoDirectory
from agent.host.inotify import PathWatch
from agent.host.links import link_events
from agent.host.monitor import group, uevents
from agent.host.presence import Presences
from agent.host.root import Root
from agent.host.udev import CONTROL as UDEV_CONTROL
from agent.kubelet import service
from agent.kubelet.socket_file import remove_stale
from agent.offering import Offering, Way
from agent.own_specs import OwnSpecs
from agent.preparing import Preparing
from agent.registry import Registry
from agent.reload import Difference, difference
from agent.scanners.reading import UNRUN
from agent.state import State, StateFile
from agent.state import load as load_state
from agent.status import Status, heartbeat
from agent.tracker import Tracker, where_to_look

KUBELET_SOCKET = "kubelet.sock"

log = logging.getLogger("agent")


class AlreadyRunning(RuntimeError):  # noqa: N818  the state it is in
    """Another agent has this state directory, or this directory of the kubelet's."""


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
        registry, status, counts, held, tracker, allocation: the parts, for those who show them.
    """

    def __init__(self, configuration: Configuration, root: Root, state: str, *, programs: bool = True) -> None:
        self.configuration = configuration
        self.started = self.configured_at = time.monotonic()
        self.counts = Counts()
        self.registry = Registry(self.counts)
        self.status = Status(self.counts, lambda: self.held.holders)
        settings = configuration.settings
        boot = root.read("/proc/sys/kernel/random/boot_id")
        self._boot = boot if isinstance(boot, str) else ""
        remembered = load_state(state, self._boot)
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
        self._preparing = Preparing(lambda keys: self.tracker.nudge(Touched(keys=keys))) if programs else None
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
        )
        self._sockets = Presences(
            os.path.join(settings.kubelet.dir, KUBELET_SOCKET),
            os.path.join(settings.kubelet.watcher_dir, KUBELET_SOCKET),
            UDEV_CONTROL,
        )
        self._kubelet, watcher, self._udev = self._sockets.all
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
        self._stopping = asyncio.Event()
        self._failure: asyncio.Future[None] | None = None
        self._first_lists = True
        self._offered: tuple[Mapping[str, str], Sequence[ResourceSpec]] = {}, ()

    async def run(self) -> None:
        """Serve until `stop`; every socket and task is gone when this returns.

        Raises:
            AlreadyRunning: another agent has the state directory, or the kubelet's.
            ExceptionGroup: a defect; what can fail on a host or a kubelet does not end the agent.
        """
        with _locked(self._state), closing(self._claim):
            try:
                self._claim.take()
            except Taken as taken:
                raise AlreadyRunning(str(taken)) from None
            async with AsyncExitStack() as stack:
                await stack.enter_async_context(self._sockets)
                await stack.enter_async_context(self._nodes)
                self._nodes.watch(where_to_look(self.root, self.tracker.specs))
                for directory in (self.settings.kubelet.dir, self.settings.kubelet.watcher_dir):
                    _sweep(directory)
                async with asyncio.TaskGroup() as tasks:
                    await self._serve(tasks)

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
        self.tracker.configure(configuration.resources)
        specs = configuration.resources
        self._offering.keep({spec.name: _way(spec, specs) for spec in specs if not spec.adds})
        await self.tracker.looked()
        log.info("configuration: %s: %s", configuration.digest, change)
        return change

    async def _serve(self, tasks: asyncio.TaskGroup) -> None:
        self._failure = asyncio.get_running_loop().create_future()
        listening = asyncio.Event()
        works = [tasks.create_task(self._listen(listening))]
        await listening.wait()
        works += [
            tasks.create_task(work)
            for work in (
                self.tracker.run(),
                *([self._preparing.run()] if self._preparing else []),
                self._answers.run(self.tracker),
                self.held.run(self._kubelet),
                self._devinfo.run(),
                self._file.run(),
                self.status.tell_systemd(),
                heartbeat(),
                self._sockets.run(self.settings.look.every),
                _raised(self._failure),
            )
        ]
        offering = tasks.create_task(self._offering.run(self._stopping))
        works.append(tasks.create_task(self._begin()))
        await self._stopping.wait()
        systemd.notify(STOPPING=1, STATUS=f"stopping: ending {counted(self._offering.offered, 'stream')}")
        await asyncio.wait([offering])
        if not self._first_lists:
            self._remember(self.tracker.assembly)  # with what was granted since the last lists
        for work in works:
            work.cancel()

    async def _begin(self) -> None:
        """Serve every resource, then say that the agent is ready.

        What the last life had listed is offered at once, all Unhealthy until it has been looked for: the kubelet's
        part of a registration takes as long as a look (docs/adr/0022-names-and-shares.md). Others' first lists are
        full.
        """
        told = self.tracker.assembly.snapshots
        for snapshot in told.values():
            self.registry.publish(snapshot)
        # One that is taken out of the configuration, and held, may have been registered in either way.
        self._offering.add(dict.fromkeys(told, Way(self.settings.kubelet.registration)) | self._ways(told))
        await self.tracker.looked()
        self._offer(self.tracker.assembly.written)
        while not self.status.settled:
            await self.status.changed()
        self.status.ready()

    def _ways(self, resources: Iterable[str]) -> dict[str, Way]:
        """How resources that an entry has are with the kubelet."""
        entries = {name: self.tracker.entry_of(name) for name in resources}
        return {name: _way(entry, self.tracker.specs) for name, entry in entries.items() if entry is not None}

    def _offer(self, written: Mapping[str, str]) -> None:
        """Offer the resources that there are now. One that is new here may have been another's, and be held."""
        ways = self._ways(written)
        self._offering.keep(ways)
        if self._offering.add(ways) and not self._first_lists:
            self.held.doubt()

    def _published(self, before: Mapping[str, Snapshot], assembly: Assembly) -> None:
        """After each assembly: say what changed, remember it, and watch what is to be watched now."""
        self._answers.looked(self.tracker)
        self.status.published(before, assembly, first=self._first_lists)
        if (assembly.written, self.tracker.specs) != self._offered:
            self._offered = assembly.written, self.tracker.specs
            self._offer(assembly.written)
        self.status.silenced(
            {
                name: silence(list_, self.tracker.look)
                for name, list_ in assembly.snapshots.items()
                if self._first_lists or before.get(name) is not list_
            }
        )
        self._first_lists = False
        self.status.expected(short(self.tracker.specs, self.tracker.look, assembly))
        self._want()
        self._remember(assembly)
        # What happened in these between the look that named them and now, nobody saw.
        if unseen := self._nodes.watch(self.tracker.directories):
            self.tracker.nudge(Touched(unseen))
        for name in assembly.ending:
            self._offering.retire(name)

    def _remember(self, assembly: Assembly) -> None:
        """Have written what should outlast this life."""
        fanned = {name: one.written for name, one in assembly.fanned.items()}
        known, drained = self.held.known, self.tracker.drained
        self._file.save(State(assembly.snapshots, known, fanned, self.tracker.memory, self._boot, drained))

    def _want(self) -> None:
        """Say whether something waits for pods to let go: a device that is Unhealthy or in a pod, a file."""
        lists = self.tracker.assembly.snapshots.values()
        unhealthy = any(list_.count(Health.UNHEALTHY) for list_ in lists)
        self.held.want(unhealthy or bool(self.tracker.look.away) or self._devinfo.any)

    def _forget(self, resource: str) -> None:
        self.tracker.drop(resource)
        self.counts.forget(resource)

    def _held_changed(self) -> None:
        self.tracker.reassemble()
        self._devinfo.stir()

    def _told(self, by: str, touched: Touched) -> None:
        """Events were told; if they were lost, that is everything."""
        self.counts.overruns[by] += touched.everything
        self.tracker.nudge(touched)

    def _paths_changed(self, paths: frozenset[str], overflow: bool) -> None:  # noqa: FBT001  the watch's signature
        self._told("inotify", EVERYTHING if overflow else Touched(paths))
        own = self._own_specs.directory
        if overflow or any(path == own or path.startswith(f"{own}/") for path in paths):
            self._own_specs.touched()

    async def _listen(self, listening: asyncio.Event) -> None:
        """Hear the kernel's events, from udev where it runs; a tree in place of the host has none."""
        if self.root.prefix:
            listening.set()
            return
        async with link_events(self.root, partial(self._told, "links")) as deaf:
            self.counts.heard["links"] = deaf is None
            if deaf is not None:
                log.warning("%s: changes of network links are seen at each sweep", deaf.reason)
            await self._listen_to_udev(listening)

    async def _listen_to_udev(self, listening: asyncio.Event) -> None:
        while True:
            async with uevents(partial(self._told, "uevents")) as source:
                self.counts.heard["uevents"] = not isinstance(source, Absent)
                if isinstance(source, Absent):
                    log.warning("%s: changes below /dev are seen at once, others at each sweep", source.reason)
                listening.set()
                self.tracker.nudge(EVERYTHING)
                # Not what runs by now: that may have come since.
                heard = group() if isinstance(source, Absent) else source
                while group() == heard:
                    await self._udev.stirred()

    def _unexpected(self, error: BaseException) -> None:
        """A defect met while answering the kubelet: the process ends with it, and systemd starts it again."""
        if self._failure and not self._failure.done():
            self._failure.set_exception(error)


def _ask(question: Question) -> AsyncGenerator[Answer, None]:
    """Ask whom a question is for."""
    return command.ask(question) if isinstance(question, Command) else service.ask(question)


def _way(entry: ResourceSpec, specs: Iterable[ResourceSpec]) -> Way:
    starts = any(spec.prestart for spec in specs if spec.name == entry.name)  # also one that adds devices to it
    # The kubelet would choose two shares of one device, and the grant that is refused then is final for the pod.
    preferred = entry.limit.distinct or bool(entry.prefer)
    return Way(entry.registration, preferred=preferred, pre_start=starts)


async def _raised(failure: asyncio.Future[None]) -> None:
    await failure


def _sweep(directory: str) -> None:
    """Remove the sockets of earlier lives, as far as that can be done."""
    try:
        remove_stale(directory)
    except OSError as error:
        log.warning("sockets of an earlier life may be left: %s", error)


@contextmanager
def _locked(directory: str) -> Iterator[None]:
    """Hold the state directory for this process alone; where it cannot be written, only say so."""
    try:
        os.makedirs(directory, mode=0o700, exist_ok=True)
        # Read and write: whatever stands there, even a FIFO, opens at once.
        lock = os.fdopen(os.open(os.path.join(directory, "lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600), "rb")
    except OSError as error:
        log.warning("state: %s cannot be used (%s): nothing is remembered over a restart", directory, error)
        yield
        return
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise AlreadyRunning(f"another device-agent is running with the state directory {directory}") from None
        yield
