"""The edge of an Allocate: from ids to a grant that was true on the host a moment ago.

The words that the entry's nodes and variables mention are read anew for the devices asked for, the nodes are looked
at, and only then is the grant decided, by a pure function. Nothing is remembered but that the ids may be held.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Container, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Protocol, TypeAlias

from agent.allocation.preferred_allocation import PreferredAllocation, TrackerView
from agent.allocation.prestart_runner import run_before_start
from agent.core.entry.derived_words import CapturedWord, Constant
from agent.core.entry.devinfo import DevInfo
from agent.core.entry.resource_spec import ResourceSpec
from agent.core.grants.build_grant import build_grant, edits_of
from agent.core.grants.exclusive_grants import ExclusiveGrants, holder_of
from agent.core.grants.grant import MISSING, Grant, GrantRefusedError, RefusalCause, RereadDevice
from agent.core.grants.limit import exceeded
from agent.core.grants.parse_request import parse_ids
from agent.core.inventory.device import Device, HostDevice
from agent.core.inventory.dirty_set import DirtySet
from agent.core.lists.iommu_exclusive import format_iommu_reason
from agent.counters import Counters
from agent.host.cdi_specs import SpecDirectories
from agent.host.daemon_thread import start_in_thread
from agent.host.devinfo_directory import DevInfoError
from agent.host.root import Root
from agent.registry import Registry
from agent.reread import (
    ALLOCATE_SCOPE,
    PRESTART_SCOPE,
    DeviceRequest,
    RereadScope,
    collect_specs,
    find_device_requests,
    reread_devices,
)
from agent.scanners.host_reader import is_in_memory
from agent.scanners.query_source import NO_AGENT, QuerySource
from agent.specs.generated_specs import GeneratedSpecs

DEADLINE_SECONDS = 1.0  # the kubelet has none, and no pod starts while it waits
WRITE_SECONDS = 1.0  # so long may device-information files take
PUBLISH_SECONDS = 1.5  # for the settle time, a look, and as long as pacing may hold a list (`core.pace`)
CONFIRM_SECONDS = 0.5  # so long PodResources may take to say who holds what, before an exclusive grant
INLINE_DEVICES = 16  # devices that are looked at on the event loop: about a millisecond

FindChangeTime: TypeAlias = Callable[
    [str, str], float | None
]  # of a resource and an id; monotonic, none if it is not known


def _unknown(*_: str) -> float | None:
    """Nobody knows since when."""
    return None


async def _no_answer(_within: float) -> bool:
    """Return that PodResources did not answer."""
    return False


async def _not_saved() -> None:
    """Return at once: nothing outlasts this life."""


class TrackerAccess(TrackerView, Protocol):
    """What the tracker knows and can be asked to look at again."""

    def is_exclusive(self, device: Device) -> bool:
        """Return whether a grant of a listed device keeps other devices from pods."""

    def exclusive_devices(self) -> Iterable[tuple[str, Device]]:
        """Return all such devices, each with its resource."""

    def nudge(self, touched: DirtySet) -> None:
        """Say that something may have changed."""

    async def looked(self) -> None:
        """Return when a new look is published."""


class DevInfoWriter(Protocol):
    """Who has device-information files written."""

    async def write(self, infos: Sequence[DevInfo]) -> None:
        """Have these files there, or raise `DevInfoError`."""


class Allocation:
    """Answers what containers get; see `agent.kubelet.plugin.Granting`."""

    def __init__(
        self,
        root: Root,
        registry: Registry,
        tracker: TrackerAccess,
        add_grant: Callable[[Iterable[str]], None],
        *,
        spec_directories: SpecDirectories,
        generated_specs: GeneratedSpecs,
        devinfo_writer: DevInfoWriter,
        confirmed_ids: Container[str],
        runs_programs: bool = True,
        query_source: QuerySource = NO_AGENT,
        counters: Counters | None = None,
        find_change_time: FindChangeTime = _unknown,
        confirm: Callable[[float], Awaitable[bool]] = _no_answer,
        save: Callable[[], Awaitable[None]] = _not_saved,
    ) -> None:
        """`granted` is told the ids of every request, before it is answered; `held` are those that pods may have.

        own_specs: knows the CDI specs of our own.
        programs: whether those are run that entries name. counts: told what came of each request.
        since: since when a device has the health it has.
        confirm: as `Held.confirm`. save: returns when the held IDs are on disk, or cannot be written.
        """
        self._counts = counters or Counters()
        self._since = find_change_time
        self._confirm = confirm
        self._save = save
        self._root = root
        self._cdi = spec_directories
        self._devinfo = devinfo_writer
        self._answers = query_source
        self._registry = registry
        self._truth = tracker
        self._granted = add_grant
        self._preferring = PreferredAllocation(registry, tracker)
        self._held = confirmed_ids
        self._reserved = ExclusiveGrants()
        self._own_specs = generated_specs
        self._programs = runs_programs
        self._reading: dict[asyncio.Future[list[RereadDevice]], tuple[frozenset[str], float]] = {}  # keys, since

    async def allocate(self, resource: str, ids: Sequence[str]) -> Grant:
        """The grant for one container.

        Raises:
            Refused: an id is not listed or not Healthy, the host is not as listed, or it did not answer in time.
        """
        began, result = time.monotonic(), "defect"
        try:
            grant = await self._allocate(resource, ids)
            result = "ok"
        except GrantRefusedError as refused:
            result = refused.cause.value
            raise refused.explained(resource) from None
        except asyncio.CancelledError:
            result = "cancelled"
            raise
        finally:
            self._counts.allocations[resource, result] += 1
            self._counts.call_times["Allocate"].observe(time.monotonic() - began)
        return grant

    async def _allocate(self, resource: str, ids: Sequence[str]) -> Grant:
        ids = tuple(dict.fromkeys(ids))  # one that is repeated is one
        snapshot = self._registry.get_list(resource)
        devices = parse_ids(snapshot, ids, since=self._said_since)
        exclusive = any(map(self._truth.is_exclusive, devices))
        if exclusive and await self._confirm(CONFIRM_SECONDS):
            snapshot = self._registry.get_list(resource)
            devices = parse_ids(snapshot, ids, since=self._said_since)
        spec = self._truth.entry_of(resource)
        if spec is None:
            raise GrantRefusedError(RefusalCause.UNHEALTHY, f"{resource}: taken out by configuration")
        if too_much := exceeded(spec.limit, devices, len(ids)):
            raise GrantRefusedError(RefusalCause.LIMIT, f"{resource}: {too_much.text}", device=too_much.device)
        self._reserve(resource, devices.keys(), ids)
        self._granted(ids)
        asked = find_device_requests(resource, spec, devices, self._truth)
        if any(map(_elsewhere, asked)):
            await self._look_again(DirtySet(keys=frozenset(one.candidate.device.key for one in asked)))
            asked = find_device_requests(resource, spec, devices, self._truth)
            if found := next(filter(_elsewhere, asked), None):
                why = "it is in the network namespace of the pod that had it"
                raise GrantRefusedError(
                    RefusalCause.UNHEALTHY, f"{resource} {found.device.id}: {why}", device=found.device.id
                )
        hosts = {host.key: host for one in asked for host in one.candidate.host_devices}
        try:
            if self._at_hand(asked):
                chosen = reread_devices(self._root, asked, self._cdi, query_source=self._answers)
            else:
                chosen = await self._read_aside(resource, asked, hosts)
            grant = build_grant(spec, ids, chosen, snapshot.id_count, resource=resource)
            self._in_specs(resource, chosen)
        except GrantRefusedError as refused:
            if refused.cause in MISSING:
                await self._tell_first(resource, hosts.values())
            raise
        if grant.devinfo:
            await self._write(resource, grant.devinfo)
        if exclusive:  # a kill right after the answer must not make the group free
            with suppress(TimeoutError):
                async with asyncio.timeout(WRITE_SECONDS):
                    await self._save()
        return grant

    async def start(self, resource: str, ids: Sequence[str]) -> None:
        """Run what is to be run before a container with these ids starts: of each device, whether it is Healthy or not.

        Raises:
            Refused: a device is not there, or a program failed.
        """
        snapshot = self._registry.get_list(resource)
        devices = parse_ids(snapshot, ids, healthy=False)
        spec = self._truth.entry_of(resource)
        if spec is None:
            raise GrantRefusedError(
                RefusalCause.UNHEALTHY, f"{resource}: taken out by configuration, and what is to be run with it"
            )
        if not devices or not any(one.prestart for one in self._truth.specs if one.name == spec.name):
            return
        # What is in the pod already the host cannot reach.
        there = (
            one for one in find_device_requests(resource, spec, devices, self._truth) if not one.candidate.is_in_pod
        )
        asked = [one for one in there if one.spec.prestart]
        if asked and self._programs:
            hosts = {host.key: host for one in asked for host in one.candidate.host_devices}
            chosen = await self._read_aside(resource, asked, hosts, PRESTART_SCOPE)
            await run_before_start(resource, chosen, requested_count=len(ids), offered_count=snapshot.id_count)

    def prefer(self, resource: str, available: Sequence[str], must_include: Sequence[str], size: int) -> Sequence[str]:
        """Which of the available ids a container had better get; empty where nothing can be preferred."""
        began = time.monotonic()
        preferred = self._preferring.prefer(resource, available, must_include, size)
        self._counts.call_times["GetPreferredAllocation"].observe(time.monotonic() - began)
        return preferred

    def _said_since(self, resource: str, id: str) -> str:  # noqa: A002  the API's own word
        return _begun(self._since(resource, id))

    def _reserve(self, resource: str, devices: Collection[Device], ids: Collection[str]) -> None:
        """Have nobody else given what these shut.

        Raises:
            Refused: another pod has what these cannot be had beside.
        """
        # An answer of PodResources is known before any list is made of it, too.
        listed = [*self._truth.exclusive_devices()] if any(map(self._truth.is_exclusive, devices)) else ()
        for device in devices:
            holder = self._reserved.holder([device], ids, self._held) or holder_of(device, ids, listed, self._held)
            if holder:
                raise GrantRefusedError(
                    RefusalCause.UNHEALTHY, f"{resource} {device.id}: {format_iommu_reason(holder)}", device=device.id
                )
        self._reserved.grant(resource, devices, ids)

    def _in_specs(self, resource: str, chosen: Sequence[RereadDevice]) -> None:
        """Refuse what no runtime would find, or would find something else of."""
        for one in chosen:
            if one.spec is not None and one.spec.via:
                missing = self._own_specs.find_fault(resource, one.device, edits_of(one.spec, one, resource))
                if missing:
                    self._own_specs.mark_all_dirty()
                    raise GrantRefusedError(
                        RefusalCause.CDI_MISSING, f"{resource} {one.device.id}: {missing}", device=one.device.id
                    )

    def _at_hand(self, asked: Sequence[DeviceRequest]) -> bool:
        """Whether all there is to read is a few names below /dev: they are in memory, and a thread costs far more."""
        if self._root.prefix or len(asked) > INLINE_DEVICES:
            return False
        words = {key: _words_at_hand(spec) for key, spec in collect_specs(asked).items()}
        return all(
            (own := words[id(one.spec)]) is not None and all(is_in_memory(one.candidate.device, word) for word in own)
            for one in asked
        )

    async def _read_aside(
        self,
        resource: str,
        asked: Sequence[DeviceRequest],
        hosts: Mapping[str, HostDevice],
        purpose: RereadScope = ALLOCATE_SCOPE,
    ) -> list[RereadDevice]:
        """What the host says now, if it does within the deadline.

        While a read of a device is stuck, others that ask for it are refused at once: each would cost a thread.
        """
        late = time.monotonic() - DEADLINE_SECONDS
        if not any(since <= late and not keys.isdisjoint(hosts) for keys, since in self._reading.values()):
            read = start_in_thread(reread_devices, self._root, asked, self._cdi, purpose, query_source=self._answers)
            self._reading[read] = frozenset(hosts), time.monotonic()
            read.add_done_callback(self._read)
            await asyncio.wait((read,), timeout=DEADLINE_SECONDS)
            if read.done():
                return read.result()
        device = asked[0].device.id
        why = f"the host did not answer within {DEADLINE_SECONDS:g} s"
        raise GrantRefusedError(RefusalCause.DEADLINE, f"{resource} {device}: {why}", device=device)

    async def _write(self, resource: str, infos: Sequence[DevInfo]) -> None:
        """Have what CNI plugins are told there before the answer; written late, it goes when the ids are let go."""
        try:
            async with asyncio.timeout(WRITE_SECONDS):
                await self._devinfo.write(infos)
        except DevInfoError as error:
            raise GrantRefusedError(
                RefusalCause.DEVINFO, f"{resource} {infos[0].id}: device-information file: {error}"
            ) from None
        except TimeoutError:
            text = f"{resource} {infos[0].id}: device-information file: not written within {WRITE_SECONDS:g} s"
            raise GrantRefusedError(RefusalCause.DEADLINE, text) from None

    def _read(self, read: asyncio.Future[list[RereadDevice]]) -> None:
        """A read has come back, perhaps too late for anybody to want what it brings."""
        del self._reading[read]
        read.exception()

    async def _tell_first(self, resource: str, hosts: Iterable[HostDevice]) -> None:
        """Look again and let the kubelet have the list before it has the error, for it will not ask twice."""
        paths = frozenset(path for host in hosts for path in (host.directory, host.node) if path)
        try:
            async with asyncio.timeout(PUBLISH_SECONDS):
                await self._look_again(DirtySet(paths))
                await self._registry.wait_until_delivered([resource])
        except TimeoutError:
            return

    async def _look_again(self, touched: DirtySet) -> None:
        """Return when the host has been looked at there, or that takes too long."""
        self._truth.nudge(touched)
        with suppress(TimeoutError):
            async with asyncio.timeout(PUBLISH_SECONDS):
                await self._truth.looked()


def _elsewhere(asked: DeviceRequest) -> bool:
    """Whether the host does not show the device itself, for a pod has it."""
    return asked.candidate.is_in_pod and not asked.spec.moved_words


def _begun(since: float | None) -> str:
    """` since 03:07:12Z`; with its day, if that was another."""
    if since is None:
        return ""
    now = time.time()
    then = datetime.fromtimestamp(now - (time.monotonic() - since), UTC)
    today = then.date() == datetime.fromtimestamp(now, UTC).date()
    return then.strftime(" since %H:%M:%SZ" if today else " since %Y-%m-%d %H:%MZ")


def _words_at_hand(spec: ResourceSpec) -> frozenset[str] | None:
    """The words of the host that a grant reads; none if there is more to it than words of one host device."""
    if spec.mounts or spec.cdi or spec.group or any(check.recheck_on_allocate for check in spec.checks):
        return None
    if not all(line.is_plain for when in spec.give_conditions for line in when.walk_lines()):
        return None
    words = spec.find_give_words().union(slot.word for text in spec.id for slot in text.slots)
    words -= {word for word, own in spec.derived_words.items() if isinstance(own, (CapturedWord, Constant))}
    return words if words.isdisjoint(spec.derived_words) else None
