"""CDI specs of our own, kept true: written before the list that offers their devices, gone when nobody can want them.

A device is in its spec as long as it is listed, with what it had last where it cannot be looked at: the kubelet repeats
the name at each start of a container, for as long as the pod lives.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from agent.core.entry.generated_cdi import Edits, make_device_name, make_file_name
from agent.core.entry.resource_spec import ResourceSpec
from agent.core.inventory.candidate import Candidate
from agent.core.inventory.device import Device, DeviceList, Health
from agent.core.lists.build_lists import DeviceLists
from agent.core.lists.list_builder import make_device
from agent.core.lists.list_inputs import HeldIds
from agent.core.lists.resource_names import ResourceCandidates
from agent.core.reason import Reason
from agent.core.struct import MutableStruct, field, replace
from agent.host.cdi_spec_file import SpecFiles
from agent.host.cdi_specs import SpecDirectories
from agent.host.daemon_thread import start_in_thread
from agent.host.root import Root
from agent.reread import DeviceRequest
from agent.specs.spec_builder import SpecBuilder, SpecInputs, WrittenSpec

ANSWER_SECONDS = 1.0  # for all that is read for one spec; lists wait meanwhile
AGAIN_SECONDS = 5.0  # between two tries to write what could not be written

_NONE: Mapping[str, Candidate] = {}  # always the same, as it is compared by identity

SpecFaults: TypeAlias = Mapping[str, Mapping[str, str]]  # why a device has no spec, by resource and key


class _Spec(MutableStruct):
    """The spec of one resource.

    basis: what it was made of; if that is the same nothing has to be done. late: nobody waits for it any more.
    """

    basis: tuple[object, ...] = ()
    done: WrittenSpec = field(default_factory=lambda: WrittenSpec({}, {}, {}))
    renewing: asyncio.Future[WrittenSpec] | None = None
    late: bool = False


class _Now(NamedTuple):
    """A resource's list and candidates, and how many slots it has, if that is how it is divided.

    held: what pods may hold, if the resource wants no spec any more.
    """

    snapshot: DeviceList
    found: Mapping[str, Candidate]
    slots: int | None = None
    held: HeldIds | None = None

    def asked(self, specs: Sequence[ResourceSpec]) -> Iterator[DeviceRequest]:
        """The devices that are given by a spec; of a resource with slots those that all of these give."""
        if self.slots is not None:
            for one in self.found.values():
                spec = specs[one.entry]
                if spec.via and not one.reason:
                    name = one.ids[0] if one.ids else one.device.name
                    yield DeviceRequest(make_device(one, name, self.slots), (), one, spec, has_own_id=False)
            return
        for device in self.snapshot.devices:
            found = self.found.get(device.key)
            if found is None or found.is_in_pod:  # in a pod: what it had stays
                continue
            if device.health is Health.HEALTHY and specs[found.entry].via:
                yield DeviceRequest(device, (), found, specs[found.entry])

    def kept(self) -> Iterator[Device]:
        """The devices that stay as they are in the spec, where nothing newer can be said of them."""
        return (device for device in self.snapshot.devices if self.held is None or self.held.is_held(device))


class KeptNames:
    """Names of files that stay, which may become others while somebody goes by them."""

    def __init__(self) -> None:
        self.names: frozenset[str] = frozenset()

    def __contains__(self, name: object) -> bool:
        return name in self.names


class GeneratedSpecs:
    """Writes the specs of all resources that have one.

    Args:
        owner: what tells this agent from others on the machine.
        specs: all specs, to see what else has a name of ours; ours go into the last of its directories.
        stirred: called when there is something to be renewed that no list tells of.
    """

    def __init__(self, root: Root, owner: str, specs: SpecDirectories, on_change: Callable[[], None]) -> None:
        self._files = SpecFiles(root, specs.directories[-1], owner) if specs.directories else None
        self._making = SpecBuilder(root, specs, self._files)
        self._stirred = on_change
        self._of: dict[str, _Spec] = {}
        self._there: frozenset[str] = frozenset()  # files of ours, resources of which there is none included
        self._swept: frozenset[str] | None = None  # the resources that there were at the last sweep
        self._sweeping: asyncio.Future[tuple[str, ...]] | None = None
        self._kept = KeptNames()
        self.retry_at: float | None = None

    @property
    def directory(self) -> str:
        """Where they are; empty where there is no such directory."""
        return self._files.directory if self._files else ""

    def mark_all_dirty(self) -> None:
        """Say that somebody may have changed files of ours."""
        for spec in self._of.values():
            spec.basis = ()
        self._swept = None
        self._stirred()

    async def refresh(
        self, lists: DeviceLists, specs: Sequence[ResourceSpec], offers: ResourceCandidates, held_ids: HeldIds
    ) -> SpecFaults:
        """Have all specs say what those lists need, and why some devices have none."""
        loop = asyncio.get_running_loop()
        if self.retry_at is not None and loop.time() >= self.retry_at:
            for spec in self._of.values():
                spec.basis = () if spec.done.faults else spec.basis
        self.retry_at = None
        vias = {spec.name for spec in specs if spec.via}
        swept = self._files is None or (self._swept is not None and self._sweeping is None)
        if not vias and not self._of and not self._there and swept:
            return {}  # as with most agents
        own = {spec.name: spec for spec in specs if not spec.is_addition}
        await self._sweep(lists)
        begun: list[asyncio.Future[WrittenSpec]] = []
        for resource, written in lists.written_names.items():
            if (written or resource) in vias:
                slots, found = own[written or resource].slots, offers.get((resource, written), _NONE)
                now = _Now(lists.lists[resource], found, slots.count if slots else None)
                begun += self._begin(resource, now, specs)
        for resource, snapshot in lists.lists.items():
            if (lists.written_names.get(resource) or resource) not in vias and self._has(resource):
                begun += self._begin(resource, _Now(snapshot, _NONE, held=held_ids), specs)
        if begun:
            await asyncio.wait(begun, timeout=ANSWER_SECONDS)
        faults = {resource: self._ended(resource) for resource in self._of}
        for resource in self._of.keys() - lists.lists.keys():
            del self._of[resource]
        if any(faults.values()):
            self.retry_at = loop.time() + AGAIN_SECONDS
        return {resource: why for resource, why in faults.items() if why}

    def find_fault(self, resource: str, device: Device, edits: Edits) -> str:
        """Why a runtime would not find a device's spec, or one that says something else; empty if it does."""
        name, spec = make_device_name(resource, device.id), self._of.get(resource)
        if spec is None or self._files is None or name not in spec.done.edits:
            return f"{name} is in no CDI spec yet"
        if spec.done.edits[name] != edits:
            said = {other: each for other, each in spec.done.devices.items() if other != name}
            spec.done = spec.done._replace(devices=said)  # it is read again
            return f"{name}: its CDI spec is of something that has changed since"
        if self._files.read_version(make_file_name(resource)) != spec.done.version:
            return f"{name}: its CDI spec {self._files.get_path(make_file_name(resource))} was changed by somebody else"
        return ""

    def _has(self, resource: str) -> bool:
        """Whether there is a file of a resource, which may want none any more."""
        return make_file_name(resource) in self._there

    async def _sweep(self, assembly: DeviceLists) -> None:
        """Remove what is of resources that are no more, once for each set of these.

        One that takes long is not waited for, and what it finds counts once it ends: then there is something to renew.
        """
        names = frozenset(assembly.lists)
        if self._files is None or (self._sweeping is None and names == self._swept):
            return
        self._kept.names = frozenset(map(make_file_name, names))  # a sweep that has begun leaves what is new, too
        if self._sweeping is None:
            self._swept = names
            self._sweeping = sweeping = start_in_thread(self._files.remove_except, self._kept)
            done, _ = await asyncio.wait([sweeping], timeout=ANSWER_SECONDS)
            if not done:
                sweeping.add_done_callback(lambda _: self._stirred())
        if self._sweeping.done():
            written = (make_file_name(resource) for resource, spec in self._of.items() if spec.done.version)
            self._there = frozenset((*self._sweeping.result(), *written))
            self._sweeping = None

    def _begin(self, resource: str, now: _Now, specs: Sequence[ResourceSpec]) -> list[asyncio.Future[WrittenSpec]]:
        """Begin to renew a spec; nothing if it says what it should, or is being renewed already."""
        spec = self._of.setdefault(resource, _Spec())
        self._ended(resource)
        basis = (now.snapshot, now.found, *([] if now.held is None else [now.held.ids]))
        if spec.renewing is not None or (
            len(spec.basis) == len(basis) and all(one is other for one, other in zip(spec.basis, basis, strict=True))
        ):
            return []
        spec.basis, spec.late = basis, False
        wanted = {make_device_name(resource, one.device.id): one for one in now.asked(specs)}
        known = {
            name: said for name, one in wanted.items() if (said := spec.done.devices.get(name)) and said.matches(one)
        }
        asked = {name: one for name, one in wanted.items() if name not in known}
        listed = frozenset(make_device_name(resource, device.id) for device in now.kept())
        spec.renewing = start_in_thread(
            self._making.build_spec, SpecInputs(resource, known, asked, listed | wanted.keys())
        )
        spec.renewing.add_done_callback(lambda _: self._stirred() if spec.late else None)
        return [spec.renewing]

    def _ended(self, resource: str) -> Mapping[str, str]:
        """What has become of a spec, and why devices lack theirs."""
        spec = self._of[resource]
        if spec.renewing is not None and spec.renewing.done():
            spec.done, spec.renewing = spec.renewing.result(), None
            name = {make_file_name(resource)}
            self._there = self._there | name if spec.done.version else self._there - name
        if spec.renewing is None:
            return spec.done.faults
        spec.late = True
        return {"": f"its CDI spec: the host did not answer within {ANSWER_SECONDS:g} s"}


def add_spec_faults(
    offers: ResourceCandidates, faults: SpecFaults, specs: Sequence[ResourceSpec]
) -> ResourceCandidates:
    """Candidates, those without a spec that have to have one with that as their fault."""
    changed = dict(offers)
    for (resource, written), candidates in offers.items():
        why = faults.get(resource)
        if why:
            changed[resource, written] = {key: _with_fault(one, key, why, specs) for key, one in candidates.items()}
    return changed


def _with_fault(one: Candidate, key: str, why: Mapping[str, str], specs: Sequence[ResourceSpec]) -> Candidate:
    reason = why.get(key) or why.get("", "")
    return (
        replace(one, unhealthy_reason=Reason.of(reason)) if reason and not one.reason and specs[one.entry].via else one
    )
