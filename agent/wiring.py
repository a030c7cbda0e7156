"""All parts of an agent, connected with each other."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncGenerator, Callable, Iterable
from typing import TypeAlias

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
from agent.core.inventory.device import Health
from agent.core.inventory.dirty_set import ALL_DIRTY, DirtySet
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
from agent.kubelet.grpc_server_call import DefectHandler
from agent.prepare_runner import PrepareRunner
from agent.registration.resource_tasks import ResourceTasks
from agent.registry import Registry
from agent.scanners.host_reader import HostView
from agent.scanners.query_source import NO_PROGRAMS
from agent.specs.generated_specs import GeneratedSpecs
from agent.state.state_file import StateFile, load_state
from agent.state.state_format import SavedState
from agent.status.agent_status import Status
from agent.status.open_file_monitor import OpenFileMonitor
from agent.tracker.check_evaluator import CheckEvaluator
from agent.tracker.list_publisher import ListPublisher, Publication
from agent.tracker.tracker import Tracker

KUBELET_SOCKET = "kubelet.sock"

# What the agent does after each publication of lists.
Publisher: TypeAlias = Callable[["AgentParts", Publication], None]


class AgentParts:
    """All parts, created but not started.

    Args:
        configuration: the entries and the settings.
        root: the host, or a tree in its place.
        state_directory: the directory of the state file.
        runs_programs: the agent runs the programs of entries. If False, each program counts as successful.
        on_defect: called with each defect of a call from the kubelet.
        publishers: called after each publication of lists.
        clock: returns monotonic seconds. Checks and lists use this time.
        held_ids: the IDs that pods use, in place of the grants and PodResources.

    Attributes:
        counters, registry, status: the counters, the current lists, and the states for people and systemd.
        open_files: reports a shortage of file descriptors.
        state_file, devices_in_use: the saved state, and the IDs that pods may use.
        tracker: runs looks and builds lists.
        kernel_events, path_watch: report changes of the host to the tracker.
        query_results, prepare_runner, generated_specs, devinfo_files: queries, programs and files of entries.
        sockets, kubelet_socket, kubelet_lock, resource_tasks: the connection of the resources to the kubelet.
        allocation: decides grants.
    """

    def __init__(
        self,
        configuration: Configuration,
        root: Root,
        state_directory: str,
        *,
        runs_programs: bool,
        on_defect: DefectHandler,
        publishers: Iterable[Publisher],
        clock: Callable[[], float] = time.monotonic,
        held_ids: HeldIdSource | None = None,
    ) -> None:
        settings = configuration.settings
        boot_text = root.read("/proc/sys/kernel/random/boot_id")
        self._boot_id = boot_text if isinstance(boot_text, str) else ""
        saved_state = load_state(state_directory, self._boot_id)
        self._publishers = tuple(publishers)
        self._has_lists = False  # lists were published
        self.counters = Counters()
        self.registry = Registry(self.counters)
        self.open_files = OpenFileMonitor()
        self.status = Status(
            self.counters, lambda: self.devices_in_use.holders, self._list_check_names, self._find_evidence
        )
        self.state_file = StateFile(state_directory)
        self.devices_in_use = DevicesInUse(
            settings.kubelet.pod_resources,
            saved_state.held_ids,
            get_own_resources=lambda: (
                self.tracker.device_lists.lists.keys() | {spec.name for spec in self.tracker.specs}
            ),
            get_lists=lambda: self.tracker.device_lists.lists,
            on_change=self._handle_id_change,
        )
        id_source: HeldIdSource = held_ids or self.devices_in_use
        spec_directories = SpecDirectories(settings.paths.cdi)
        self.generated_specs = GeneratedSpecs(
            root, os.path.abspath(state_directory), spec_directories, self._handle_id_change
        )
        self.prepare_runner = (
            PrepareRunner(lambda keys: self.tracker.wait_for_look(DirtySet(keys=keys))) if runs_programs else None
        )
        self.query_results = QueryResults(QueryScheduler(_query), Probes())
        host = HostView(root, spec_directories, self.query_results if runs_programs else NO_PROGRAMS)
        list_publisher = ListPublisher(
            self.registry,
            configuration.resources,
            saved_state,
            id_source,
            generated_specs=self.generated_specs,
            on_published=self._publish,
            clock=clock,
        )
        self.tracker = Tracker(
            host,
            configuration.resources,
            CheckEvaluator(saved_state.saved_checks, settings.look.debounce_time, saved_state.drain_set),
            list_publisher,
            timing=settings.look,
            prepare_runner=self.prepare_runner,
            counters=self.counters,
            clock=clock,
        )
        directory = DevInfoDirectory(f"{root.prefix}{settings.paths.devinfo}", state_directory)
        self.devinfo_files = DevInfoFiles(directory, lambda: id_source.ids, self.update_polling)
        self.allocation = Allocation(
            host,
            self.registry,
            self.tracker,
            id_source,
            devinfo_files=self.devinfo_files,
            generated_specs=self.generated_specs,
            runs_programs=runs_programs,
            counters=self.counters,
            find_change_time=self.status.history.find_change_time,
            save=self._save,
        )
        self.sockets = SocketWatches(
            os.path.join(settings.kubelet.dir, KUBELET_SOCKET),
            os.path.join(settings.kubelet.watcher_dir, KUBELET_SOCKET),
            UDEV_CONTROL,
        )
        self.kubelet_socket, watcher, udev = self.sockets.watches
        self.kernel_events = KernelEvents(root, self.tracker.request_look, udev, self.counters)
        self.path_watch = PathWatch(root, self._handle_path_change, written=True)
        self.kubelet_lock = DirectoryLock(settings.kubelet.dir)
        self.resource_tasks = ResourceTasks(
            self.registry,
            self.allocation,
            self.status,
            kubelet=self.kubelet_socket,
            watcher=watcher,
            kubelet_lock=self.kubelet_lock,
            on_defect=on_defect,
            on_retired=self._forget_resource,
        )

    def update_polling(self) -> None:
        """Start or stop the polling of PodResources.

        Polling is necessary while a device is Unhealthy or in a pod, or while device-information files exist.
        """
        lists = self.tracker.device_lists.lists.values()
        unhealthy = any(list_.count_ids(Health.UNHEALTHY) for list_ in lists)
        self.devices_in_use.set_polling(
            unhealthy or bool(self.tracker.inventory.in_pod_keys) or self.devinfo_files.has_files
        )

    def save_state(self) -> None:
        """Save the state for the next start. Do nothing before the first publication."""
        if self._has_lists:
            lists = self.tracker.device_lists
            state = SavedState(
                lists.lists,
                self.devices_in_use.confirmed_ids,
                {name: generated_name.written_name for name, generated_name in lists.generated_names.items()},
                self.tracker.saved_checks,
                self._boot_id,
                self.tracker.drains,
            )
            self.state_file.save(state)

    def _publish(self, publication: Publication) -> None:
        self._has_lists = True
        for publish in self._publishers:
            publish(self, publication)

    async def _save(self) -> None:
        self.save_state()
        await self.state_file.wait_until_saved()

    def _forget_resource(self, resource: str) -> None:
        self.tracker.drop_list(resource)
        self.counters.forget(resource)

    def _handle_id_change(self) -> None:
        self.tracker.request_lists()
        self.devinfo_files.request_cleanup()

    def _handle_path_change(self, paths: frozenset[str], overflow: bool) -> None:  # noqa: FBT001  the watch's signature
        self.kernel_events.report_events("inotify", ALL_DIRTY if overflow else DirtySet(paths))
        directory = self.generated_specs.directory
        if overflow or any(path == directory or path.startswith(f"{directory}/") for path in paths):
            self.generated_specs.mark_all_dirty()

    def _list_check_names(self, resource: str) -> frozenset[str]:
        entry = self.tracker.find_entry(resource)
        return frozenset(check.name for check in entry.checks) if entry else frozenset()

    def _find_evidence(self, change: Transition, check: str) -> str:
        entry = self.tracker.device_lists.written_names.get(change.resource) or change.resource
        check_states = self.tracker.check_states.present_devices.get(DeviceRef(entry, change.key))
        check_state = check_states.check_states.get(check) if check_states else None
        return check_state.evidence if check_state else ""


def _query(question: PolledQuery) -> AsyncGenerator[QueryResult, None]:
    """Send a question to its program, service or probe."""
    return program_query.ask(question) if isinstance(question, ProgramQuery) else socket_query.query_service(question)
