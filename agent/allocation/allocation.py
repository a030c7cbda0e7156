"""Allocate: from IDs to a grant that matches the present host.

The agent reads the words again that the nodes and variables of the entry use, and checks the nodes. Only then a pure
function decides the grant. The agent saves only the held IDs.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Protocol

from agent.allocation.devices_in_use import HeldIdSource
from agent.allocation.devinfo_files import DevInfoFiles
from agent.allocation.prestart_runner import run_before_start
from agent.core.changes import has_changed
from agent.core.entry.derived_words import CapturedWord, Constant
from agent.core.entry.devinfo import DevInfo
from agent.core.entry.resource_spec import ResourceSpec
from agent.core.grants.build_grant import build_grant, build_spec_edits
from agent.core.grants.exclusive_grants import ExclusiveGrants, find_listed_holder
from agent.core.grants.grant import MISSING, Grant, GrantRefusedError, RefusalCause, RereadDevice
from agent.core.grants.parse_request import check_limit, parse_ids
from agent.core.grants.prefer import NO_LIMIT, ChoicePool, build_choice_pool, prefer
from agent.core.inventory.device import Device, HostDevice
from agent.core.inventory.dirty_set import DirtySet
from agent.core.lists.build_lists import DeviceLists
from agent.core.lists.exclusion import format_iommu_reason
from agent.counters import Counters
from agent.host.daemon_thread import start_in_thread
from agent.host.devinfo_directory import DevInfoError
from agent.registry import Registry
from agent.reread import (
    ALLOCATE_SCOPE,
    PRESTART_SCOPE,
    CurrentInventory,
    DeviceRequest,
    RereadScope,
    collect_specs,
    find_device_requests,
    reread_devices,
)
from agent.scanners.host_reader import HostView, is_in_memory
from agent.specs.generated_specs import GeneratedSpecs

DEADLINE_SECONDS = 1.0  # for a reread; the kubelet has no deadline, and starts no pod while it waits
WRITE_SECONDS = 1.0  # for device-information files
PUBLISH_SECONDS = 1.5  # for the debounce time, a look, and the rate limit of lists
CONFIRM_SECONDS = 0.5  # for an answer of PodResources before an exclusive grant
INLINE_DEVICES = 16  # devices that are read in the event loop: about a millisecond


class TrackerAccess(CurrentInventory, Protocol):
    """The data of the tracker, and its looks."""

    @property
    def device_lists(self) -> DeviceLists:
        """The lists of the last publication."""

    def find_entry(self, resource: str) -> ResourceSpec | None:
        """Return the entry of a resource, or None."""

    def request_look(self, dirty_set: DirtySet) -> None:
        """Report a possible change of the host."""

    async def wait_for_look(self) -> None:
        """Return when a new look is published."""


class Allocation:
    """The grants for containers. Implements `agent.kubelet.plugin.GrantProvider`."""

    def __init__(
        self,
        host: HostView,
        registry: Registry,
        tracker: TrackerAccess,
        held_ids: HeldIdSource,
        *,
        generated_specs: GeneratedSpecs,
        devinfo_files: DevInfoFiles,
        find_change_time: Callable[[str, str], float | None],
        save: Callable[[], Awaitable[None]],
        runs_programs: bool = True,
        counters: Counters | None = None,
    ) -> None:
        """Create it.

        held_ids: gets the IDs of each request, before the answer. generated_specs: the generated CDI specs.
        runs_programs: the agent runs the programs of entries. counters: count the results. find_change_time: returns
        since when a device has its health. save: returns when the held IDs are on disk, or cannot be written.
        """
        self._counters = counters or Counters()
        self._find_change_time = find_change_time
        self._save = save
        self._host = host
        self._devinfo_files = devinfo_files
        self._registry = registry
        self._tracker = tracker
        self._held_ids = held_ids
        self._pools: dict[str, tuple[tuple[object, ...], ChoicePool]] = {}  # by resource, with their inputs
        self._exclusive_grants = ExclusiveGrants()
        self._generated_specs = generated_specs
        self._runs_programs = runs_programs
        self._pending_reads: dict[
            asyncio.Future[list[RereadDevice]], tuple[frozenset[str], float]
        ] = {}  # device keys, start time

    async def allocate(self, resource: str, ids: Sequence[str]) -> Grant:
        """Return the grant for one container.

        Raises:
            GrantRefusedError: an ID is not listed or not Healthy, the host differs from the list, or a read timed out.
        """
        start_time, result = time.monotonic(), "defect"
        try:
            grant = await self._allocate(resource, ids)
            result = "ok"
        except GrantRefusedError as refusal:
            result = refusal.cause.value
            raise refusal.add_next_step(resource) from None
        except asyncio.CancelledError:
            result = "cancelled"
            raise
        finally:
            self._counters.allocations[resource, result] += 1
            self._counters.call_times["Allocate"].observe(time.monotonic() - start_time)
        return grant

    async def _allocate(self, resource: str, ids: Sequence[str]) -> Grant:
        ids = tuple(dict.fromkeys(ids))  # a repeated ID counts once
        device_list = self._registry.get_list(resource)
        devices = parse_ids(device_list, ids, format_since=self._format_change_time)
        is_exclusive = any(map(self._tracker.device_lists.is_exclusive, devices))
        if is_exclusive and await self._held_ids.confirm(CONFIRM_SECONDS):
            device_list = self._registry.get_list(resource)
            devices = parse_ids(device_list, ids, format_since=self._format_change_time)
        spec = self._tracker.find_entry(resource)
        if spec is None:
            raise GrantRefusedError(RefusalCause.UNHEALTHY, f"{resource}: the configuration does not contain it now")
        check_limit(resource, spec.limit, devices, len(ids))
        self._reserve(resource, devices.keys(), ids)
        self._held_ids.add_grant(ids)
        requests = find_device_requests(resource, spec, devices, self._tracker)
        if any(map(_is_in_pod, requests)):
            await self._wait_for_look(DirtySet(keys=frozenset(request.candidate.device.key for request in requests)))
            requests = find_device_requests(resource, spec, devices, self._tracker)
            if in_pod_request := next(filter(_is_in_pod, requests), None):
                reason = "it is in the network namespace of the pod that had it"
                raise GrantRefusedError(
                    RefusalCause.UNHEALTHY,
                    f"{resource} {in_pod_request.device.id}: {reason}",
                    device=in_pod_request.device.id,
                )
        hosts = {host.key: host for request in requests for host in request.candidate.host_devices}
        try:
            if self._can_read_inline(requests):
                reread = reread_devices(self._host, requests)
            else:
                reread = await self._read_in_thread(resource, requests, hosts)
            grant = build_grant(spec, ids, reread, device_list.id_count, resource=resource)
            self._check_specs(resource, reread)
        except GrantRefusedError as refusal:
            if refusal.cause in MISSING:
                await self._publish_unhealthy(resource, hosts.values())
            raise
        if grant.devinfo:
            await self._write_devinfo(resource, grant.devinfo)
        if is_exclusive:  # a kill directly after the answer must not release the group
            with suppress(TimeoutError):
                async with asyncio.timeout(WRITE_SECONDS):
                    await self._save()
        return grant

    async def start(self, resource: str, ids: Sequence[str]) -> None:
        """Run the prestart programs of a container with these IDs, for each device, Healthy or not.

        Raises:
            GrantRefusedError: a device is absent, or a program failed.
        """
        device_list = self._registry.get_list(resource)
        devices = parse_ids(device_list, ids, healthy=False)
        spec = self._tracker.find_entry(resource)
        if spec is None:
            raise GrantRefusedError(
                RefusalCause.UNHEALTHY,
                f"{resource}: the configuration does not contain it now, nor its prestart programs",
            )
        if not devices or not any(item.prestart for item in self._tracker.specs if item.name == spec.name):
            return
        # The host cannot reach a device that is already in the pod.
        reachable = (
            item
            for item in find_device_requests(resource, spec, devices, self._tracker)
            if not item.candidate.is_in_pod
        )
        requests = [item for item in reachable if item.spec.prestart]
        if requests and self._runs_programs:
            hosts = {host.key: host for item in requests for host in item.candidate.host_devices}
            reread = await self._read_in_thread(resource, requests, hosts, PRESTART_SCOPE)
            await run_before_start(resource, reread, requested_count=len(ids), offered_count=device_list.id_count)

    def prefer(self, resource: str, available: Sequence[str], must_include: Sequence[str], size: int) -> Sequence[str]:
        """Return the preferred IDs for a container, or nothing if there is no preference."""
        start_time = time.monotonic()
        spec = self._tracker.find_entry(resource)
        limit = spec.limit if spec else NO_LIMIT
        preferred = prefer(available, must_include, size, limit, self._get_pool(resource, spec))
        self._counters.call_times["GetPreferredAllocation"].observe(time.monotonic() - start_time)
        return preferred

    def _get_pool(self, resource: str, spec: ResourceSpec | None) -> ChoicePool:
        """Return the choice pool, built once for each list and its candidates. Read no host facts."""
        written = spec.written_name if spec else ""
        candidates = self._tracker.inventory.get_resource_candidates().get((resource, written), {})
        device_list, specs = self._registry.get_list(resource), self._tracker.specs
        inputs = device_list, candidates, specs
        previous_inputs, pool = self._pools.get(resource, ((), None))
        if pool is None or has_changed(previous_inputs, inputs):
            pool = build_choice_pool(device_list, spec, candidates, specs)
            self._pools[resource] = inputs, pool
        return pool

    def _format_change_time(self, resource: str, id: str) -> str:  # noqa: A002  the API's own word
        return _format_since(self._find_change_time(resource, id))

    def _reserve(self, resource: str, devices: Collection[Device], ids: Collection[str]) -> None:
        """Reserve the exclusive keys of these devices.

        Raises:
            GrantRefusedError: a pod uses a device that excludes one of these.
        """
        # An answer of PodResources arrives before the lists that follow from it.
        lists = self._tracker.device_lists
        listed = [*lists.find_exclusive_devices()] if any(map(lists.is_exclusive, devices)) else ()
        for device in devices:
            holder = self._exclusive_grants.find_holder([device], ids, self._held_ids) or find_listed_holder(
                device, ids, listed, self._held_ids
            )
            if holder:
                raise GrantRefusedError(
                    RefusalCause.UNHEALTHY, f"{resource} {device.id}: {format_iommu_reason(holder)}", device=device.id
                )
        self._exclusive_grants.add_grant(resource, devices, ids)

    def _check_specs(self, resource: str, devices: Sequence[RereadDevice]) -> None:
        """Raise GrantRefusedError if a generated CDI spec lacks a device, or describes another one."""
        for device in devices:
            if device.spec is not None and device.spec.via:
                fault = self._generated_specs.find_fault(
                    resource, device.device, build_spec_edits(device.spec, device, resource)
                )
                if fault:
                    self._generated_specs.mark_all_dirty()
                    raise GrantRefusedError(
                        RefusalCause.CDI_MISSING, f"{resource} {device.device.id}: {fault}", device=device.device.id
                    )

    def _can_read_inline(self, requests: Sequence[DeviceRequest]) -> bool:
        """Return whether the facts are only a few names below /dev.

        These names are in memory. A thread costs much more than this read.
        """
        if self._host.root.prefix or len(requests) > INLINE_DEVICES:
            return False
        words = {key: _find_inline_words(spec) for key, spec in collect_specs(requests).items()}
        return all(
            (entry_words := words[id(request.spec)]) is not None
            and all(is_in_memory(request.candidate.device, word) for word in entry_words)
            for request in requests
        )

    async def _read_in_thread(
        self,
        resource: str,
        requests: Sequence[DeviceRequest],
        hosts: Mapping[str, HostDevice],
        scope: RereadScope = ALLOCATE_SCOPE,
    ) -> list[RereadDevice]:
        """Reread the devices in a thread, at most for DEADLINE_SECONDS.

        While a read of a device hangs, other requests for this device are refused at once. Each would cost a thread.
        """
        deadline = time.monotonic() - DEADLINE_SECONDS
        if not any(
            start_time <= deadline and not keys.isdisjoint(hosts) for keys, start_time in self._pending_reads.values()
        ):
            read = start_in_thread(reread_devices, self._host, requests, scope)
            self._pending_reads[read] = frozenset(hosts), time.monotonic()
            read.add_done_callback(self._finish_read)
            await asyncio.wait((read,), timeout=DEADLINE_SECONDS)
            if read.done():
                return read.result()
        device = requests[0].device.id
        reason = f"the host did not answer within {DEADLINE_SECONDS:g} s"
        raise GrantRefusedError(RefusalCause.DEADLINE, f"{resource} {device}: {reason}", device=device)

    async def _write_devinfo(self, resource: str, infos: Sequence[DevInfo]) -> None:
        """Write the device-information files before the answer. A file that is written late stays until the IDs are
        released.
        """
        try:
            async with asyncio.timeout(WRITE_SECONDS):
                await self._devinfo_files.write(infos)
        except DevInfoError as error:
            raise GrantRefusedError(
                RefusalCause.DEVINFO, f"{resource} {infos[0].id}: device-information file: {error}"
            ) from None
        except TimeoutError:
            text = f"{resource} {infos[0].id}: device-information file: not written within {WRITE_SECONDS:g} s"
            raise GrantRefusedError(RefusalCause.DEADLINE, text) from None

    def _finish_read(self, read: asyncio.Future[list[RereadDevice]]) -> None:
        """Forget a finished read. The result may be too late for its request."""
        del self._pending_reads[read]
        read.exception()

    async def _publish_unhealthy(self, resource: str, hosts: Iterable[HostDevice]) -> None:
        """Look again and send the list before the error. The kubelet does not repeat a failed Allocate."""
        paths = frozenset(path for host in hosts for path in (host.directory, host.node) if path)
        try:
            async with asyncio.timeout(PUBLISH_SECONDS):
                await self._wait_for_look(DirtySet(paths))
                await self._registry.wait_until_delivered([resource])
        except TimeoutError:
            return

    async def _wait_for_look(self, dirty_set: DirtySet) -> None:
        """Return after the next look, or after PUBLISH_SECONDS."""
        self._tracker.request_look(dirty_set)
        with suppress(TimeoutError):
            async with asyncio.timeout(PUBLISH_SECONDS):
                await self._tracker.wait_for_look()


def _is_in_pod(request: DeviceRequest) -> bool:
    """Return whether a pod has the device itself, so that the host does not show it."""
    return request.candidate.is_in_pod and not request.spec.moved_words


def _format_since(since: float | None) -> str:
    """Return ` since 03:07:12Z`, with the date if that is another day. Return an empty string without a time."""
    if since is None:
        return ""
    wall_time = time.time()
    change_time = datetime.fromtimestamp(wall_time - (time.monotonic() - since), UTC)
    today = change_time.date() == datetime.fromtimestamp(wall_time, UTC).date()
    return change_time.strftime(" since %H:%M:%SZ" if today else " since %Y-%m-%d %H:%MZ")


def _find_inline_words(spec: ResourceSpec) -> frozenset[str] | None:
    """Return the host words that a grant reads, or None if the grant needs more than words of one host device."""
    if spec.mounts or spec.cdi or spec.group or any(check.recheck_on_allocate for check in spec.checks):
        return None
    if not all(line.is_plain for condition in spec.give_conditions for line in condition.walk_lines()):
        return None
    words = spec.find_give_words().union(slot.word for text in spec.id for slot in text.slots)
    words -= {
        word
        for word, word_definition in spec.derived_words.items()
        if isinstance(word_definition, (CapturedWord, Constant))
    }
    return words if words.isdisjoint(spec.derived_words) else None
