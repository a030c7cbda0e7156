"""The parts of an agent, wired: which there are, and who is told of what by whom."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncGenerator, Callable, Mapping

from agent.allocation.allocation import Allocation
from agent.allocation.devices_in_use import DevicesInUse, HeldIdSource
from agent.allocation.devinfo_files import DevInfoFiles
from agent.checks import program_query
from agent.checks.probe_processes import Probes
from agent.checks.query_results import QueryResults
from agent.checks.query_scheduler import QueryScheduler
from agent.config.load import Configuration
from agent.core.entry.query import PolledQuery, ProgramQuery, QueryResult
from agent.core.health.check_states import DeviceRef
from agent.core.inventory.device import DeviceList
from agent.core.inventory.dirty_set import ALL_DIRTY, DirtySet
from agent.core.lists.build_lists import DeviceLists
from agent.core.lists.transitions import Transition
from agent.counters import Counters
from agent.host.cdi_specs import SpecDirectories
from agent.host.devinfo_directory import DevInfoDirectory
from agent.host.directory_lock import DirectoryLock
from agent.host.inotify import PathWatch
from agent.host.root import Root
from agent.host.socket_watch import SocketWatches
from agent.host.udev import CONTROL as UDEV_CONTROL
from agent.kernel_events import KernelEvents
from agent.kubelet import socket_query
from agent.kubelet.grpc_server_call import Unexpected
from agent.prepare_runner import PrepareRunner
from agent.publication import ListPublication
from agent.registration.resource_tasks import ResourceTasks
from agent.registry import Registry
from agent.scanners.query_source import NO_PROGRAMS
from agent.specs.generated_specs import GeneratedSpecs
from agent.state.state_file import StateFile
from agent.state.state_file import load as load_state
from agent.status.agent_status import Status
from agent.status.open_file_monitor import OpenFileMonitor
from agent.tracker.tracker import Tracker

KUBELET_SOCKET = "kubelet.sock"


class AgentParts:
    """All of them, made and not begun.

    Args:
        configuration: what to serve.
        root: the host, or a tree in its place.
        state: the directory of the state file.
        programs: whether programs that entries name are run; else they count as run.
        unexpected: told of every defect that came up while the kubelet was answered.
        clock: the monotonic seconds by which checks and lists are judged.
        held_ids: tells which IDs pods use, in place of the grants and PodResources.

    Attributes:
        counts, registry, status: what is counted, told to the kubelet, said to people. room: for files to be open.
        file, held: what outlasts this life, and which ids pods may hold.
        tracker: when the host is looked at, and the lists that follow.
        events, nodes: what tells it that something has changed.
        answers, preparing, own_specs, devinfo: who is asked, what is run and what is written besides.
        sockets, kubelet, claim, offering: the kubelet, and the way of the lists to it.
        allocation: what containers get.
        consequences: what follows from new lists.
    """

    def __init__(
        self,
        configuration: Configuration,
        root: Root,
        state: str,
        *,
        programs: bool,
        unexpected: Unexpected,
        clock: Callable[[], float] = time.monotonic,
        held_ids: HeldIdSource | None = None,
    ) -> None:
        settings = configuration.settings
        said = root.read("/proc/sys/kernel/random/boot_id")
        boot = said if isinstance(said, str) else ""
        remembered = load_state(state, boot)
        self.counts = Counters()
        self.registry = Registry(self.counts)
        self.room = OpenFileMonitor()
        self.status = Status(self.counts, lambda: self.held.holders, self._checks_of, self._evidence_of)
        self.file = StateFile(state)
        self.held = DevicesInUse(
            settings.kubelet.pod_resources,
            remembered.held,
            ours=lambda: self.tracker.assembly.lists.keys() | {spec.name for spec in self.tracker.specs},
            listed=lambda: self.tracker.assembly.lists,
            changed=self._held_changed,
        )
        held: HeldIdSource = held_ids or self.held
        cdi = SpecDirectories(settings.paths.cdi)
        self.own_specs = GeneratedSpecs(root, os.path.abspath(state), cdi, self._held_changed)
        self.preparing = PrepareRunner(lambda keys: self.tracker.looked(DirtySet(keys=keys))) if programs else None
        self.answers = QueryResults(QueryScheduler(_ask), Probes())
        answers = self.answers if programs else NO_PROGRAMS
        self.tracker = Tracker(
            root,
            self.registry,
            configuration.resources,
            remembered.lists,
            fanned=remembered.fanned,
            memory=remembered.memory,
            drained=remembered.drained,
            settle=settings.look.debounce_time,
            every=settings.look.rescan_interval,
            cdi=cdi,
            answers=answers,
            preparing=self.preparing,
            own_specs=self.own_specs,
            counts=self.counts,
            held=lambda: held.ids,
            known=lambda: held.known,
            published=self._published,
            clock=clock,
        )
        directory = DevInfoDirectory(f"{root.prefix}{settings.paths.devinfo}", state)
        self.devinfo = DevInfoFiles(directory, lambda: held.ids, self._want)
        self.allocation = Allocation(
            root,
            self.registry,
            self.tracker,
            held.granted,
            cdi=cdi,
            devinfo=self.devinfo,
            held=held,
            own_specs=self.own_specs,
            programs=programs,
            answers=answers,
            counts=self.counts,
            since=self.status.history.since,
            confirm=self.held.confirm,
            save=self._save,
        )
        self.sockets = SocketWatches(
            os.path.join(settings.kubelet.dir, KUBELET_SOCKET),
            os.path.join(settings.kubelet.watcher_dir, KUBELET_SOCKET),
            UDEV_CONTROL,
        )
        self.kubelet, watcher, udev = self.sockets.watches
        self.events = KernelEvents(root, self.tracker.nudge, udev, self.counts)
        self.nodes = PathWatch(root, self._paths_changed, written=True)
        self.claim = DirectoryLock(settings.kubelet.dir)
        self.offering = ResourceTasks(
            self.registry,
            self.allocation,
            self.status,
            kubelet=self.kubelet,
            watcher=watcher,
            claim=self.claim,
            unexpected=unexpected,
            forget=self._forget,
        )
        self.consequences = ListPublication(
            self.tracker,
            self.held,
            self.devinfo,
            status=self.status,
            offering=self.offering,
            file=self.file,
            boot=boot,
            nodes=self.nodes,
            answers=self.answers,
        )

    def _published(self, before: Mapping[str, DeviceList], assembly: DeviceLists) -> None:
        self.consequences.published(before, assembly)

    async def _save(self) -> None:
        self.consequences.save_state()
        await self.file.saved()

    def _want(self) -> None:
        self.consequences.update_polling()

    def _forget(self, resource: str) -> None:
        self.tracker.drop(resource)
        self.counts.forget(resource)

    def _held_changed(self) -> None:
        self.tracker.reassemble()
        self.devinfo.stir()

    def _paths_changed(self, paths: frozenset[str], overflow: bool) -> None:  # noqa: FBT001  the watch's signature
        self.events.told("inotify", ALL_DIRTY if overflow else DirtySet(paths))
        own = self.own_specs.directory
        if overflow or any(path == own or path.startswith(f"{own}/") for path in paths):
            self.own_specs.touched()

    def _checks_of(self, resource: str) -> frozenset[str]:
        entry = self.tracker.entry_of(resource)
        return frozenset(check.name for check in entry.checks) if entry else frozenset()

    def _evidence_of(self, change: Transition, check: str) -> str:
        entry = self.tracker.assembly.written_names.get(change.resource) or change.resource
        ward = self.tracker.conditions.there.get(DeviceRef(entry, change.key))
        condition = ward.conditions.get(check) if ward else None
        return condition.evidence if condition else ""


def _ask(question: PolledQuery) -> AsyncGenerator[QueryResult, None]:
    """Ask whom a question is for."""
    return program_query.ask(question) if isinstance(question, ProgramQuery) else socket_query.ask(question)
