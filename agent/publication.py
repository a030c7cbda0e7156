"""Publication: the steps after new lists (log, save, register, watch)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from agent.allocation.devices_in_use import DevicesInUse
from agent.allocation.devinfo_files import DevInfoFiles
from agent.checks.query_results import QueryResults
from agent.core.entry.resource_spec import ResourceSpec
from agent.core.inventory.device import DeviceList, Health
from agent.core.inventory.dirty_set import DirtySet
from agent.core.lists.build_lists import DeviceLists
from agent.core.lists.expected_count import find_missing_devices
from agent.core.lists.numa_topology import find_withheld_topology
from agent.host.inotify import PathWatch
from agent.registration.resource_tasks import RegistrationOptions, ResourceTasks, find_registration_options
from agent.state.state_file import StateFile
from agent.state.state_format import SavedState
from agent.status.agent_status import Status
from agent.tracker.tracker import Tracker


class ListPublication:
    """The steps after new lists.

    Args:
        tracker: the owner of the lists.
        devices_in_use: asks PodResources while a device or file waits for the end of a pod.
        devinfo_files: the device-information files, which may wait for the end of a pod.
        status: logs the changes.
        resource_tasks: registers the resources.
        state_file: saves the state for the next start, with the boot id `boot_id`.
        path_watch: watches the directories in which device nodes are added and removed.
        query_results: the queries, which depend on the last look.
    """

    def __init__(
        self,
        tracker: Tracker,
        devices_in_use: DevicesInUse,
        devinfo_files: DevInfoFiles,
        *,
        status: Status,
        resource_tasks: ResourceTasks,
        state_file: StateFile,
        boot_id: str,
        path_watch: PathWatch,
        query_results: QueryResults,
    ) -> None:
        self._tracker = tracker
        self._devices_in_use = devices_in_use
        self._devinfo_files = devinfo_files
        self._status = status
        self._resource_tasks = resource_tasks
        self._state_file = state_file
        self._boot_id = boot_id
        self._path_watch = path_watch
        self._query_results = query_results
        self._is_first = True  # no list has been published yet
        self._offered_entries: tuple[Mapping[str, str], Sequence[ResourceSpec]] = {}, ()

    def publish(self, previous_lists: Mapping[str, DeviceList], lists: DeviceLists) -> None:
        """Log the changes, save the state and watch the new directories. The tracker calls this after each build."""
        is_first, self._is_first = self._is_first, False
        tracker = self._tracker
        self._query_results.finish_look(tracker)
        self._status.record_lists(previous_lists, lists, is_first=is_first)
        if (lists.written_names, tracker.specs) != self._offered_entries:
            self._offered_entries = lists.written_names, tracker.specs
            self.offer_resources(may_be_in_use=not is_first)
        self._status.set_withheld_topologies(
            {
                name: find_withheld_topology(list_, tracker.inventory)
                for name, list_ in lists.lists.items()
                if is_first or previous_lists.get(name) is not list_
            }
        )
        self._status.set_missing(find_missing_devices(tracker.specs, tracker.inventory, lists))
        self.update_polling()
        self.save_state()
        # Changes in these directories since the look that named them were not watched.
        if unseen := self._path_watch.watch(tracker.directories):
            tracker.request_look(DirtySet(unseen))
        for name in lists.ended_resources:
            self._resource_tasks.retire(name)

    def offer_resources(self, *, may_be_in_use: bool = True) -> None:
        """Register the current resources.

        may_be_in_use: a new resource may have belonged to another plugin, so pods may use its devices.
        """
        options_by_name = self.build_registration_options(self._tracker.device_lists.written_names)
        self._resource_tasks.keep(options_by_name)
        if self._resource_tasks.add(options_by_name) and may_be_in_use:
            self._devices_in_use.assume_in_use()

    def build_registration_options(self, resources: Iterable[str]) -> dict[str, RegistrationOptions]:
        """Return the registration options of each of these resources that has an entry."""
        entries = {name: self._tracker.find_entry(name) for name in resources}
        return {
            name: find_registration_options(entry, self._tracker.specs)
            for name, entry in entries.items()
            if entry is not None
        }

    def update_polling(self) -> None:
        """Start or stop the polling of PodResources.

        Polling is necessary while a device is Unhealthy or in a pod, or while device-information files exist.
        """
        lists = self._tracker.device_lists.lists.values()
        unhealthy = any(list_.count_ids(Health.UNHEALTHY) for list_ in lists)
        self._devices_in_use.set_polling(
            unhealthy or bool(self._tracker.inventory.in_pod_keys) or self._devinfo_files.has_files
        )

    def save_state(self) -> None:
        """Save the state for the next start. Do nothing before the first publication."""
        if self._is_first:
            return
        assembly, confirmed_ids, drained = (
            self._tracker.device_lists,
            self._devices_in_use.confirmed_ids,
            self._tracker.drains,
        )
        fanned = {name: generated_name.written_name for name, generated_name in assembly.generated_names.items()}
        self._state_file.save(
            SavedState(assembly.lists, confirmed_ids, fanned, self._tracker.saved_checks, self._boot_id, drained)
        )
