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


class _SpecState(MutableStruct):
    """The spec of one resource.

    basis: what it was made of; if that is the same nothing has to be done. late: nobody waits for it any more.
    """

    inputs: tuple[object, ...] = ()
    written_spec: WrittenSpec = field(default_factory=lambda: WrittenSpec({}, {}, {}))
    future: asyncio.Future[WrittenSpec] | None = None
    is_late: bool = False


class _ResourceInputs(NamedTuple):
    """A resource's list and candidates, and how many slots it has, if that is how it is divided.

    held: what pods may hold, if the resource wants no spec any more.
    """

    device_list: DeviceList
    candidates: Mapping[str, Candidate]
    slot_count: int | None = None
    held_ids: HeldIds | None = None

    def find_requests(self, specs: Sequence[ResourceSpec]) -> Iterator[DeviceRequest]:
        """The devices that are given by a spec; of a resource with slots those that all of these give."""
        if self.slot_count is not None:
            for candidate in self.candidates.values():
                spec = specs[candidate.entry]
                if spec.via and not candidate.reason:
                    name = candidate.ids[0] if candidate.ids else candidate.device.name
                    yield DeviceRequest(
                        make_device(candidate, name, self.slot_count), (), candidate, spec, has_own_id=False
                    )
            return
        for device in self.device_list.devices:
            device_candidate = self.candidates.get(device.key)
            if device_candidate is None or device_candidate.is_in_pod:  # in a pod: what it had stays
                continue
            if device.health is Health.HEALTHY and specs[device_candidate.entry].via:
                yield DeviceRequest(device, (), device_candidate, specs[device_candidate.entry])

    def find_kept_devices(self) -> Iterator[Device]:
        """The devices that stay as they are in the spec, where nothing newer can be said of them."""
        return (device for device in self.device_list.devices if self.held_ids is None or self.held_ids.is_held(device))


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
        self._builder = SpecBuilder(root, specs, self._files)
        self._on_change = on_change
        self._states: dict[str, _SpecState] = {}
        self._existing_files: frozenset[str] = frozenset()  # files of ours, resources of which there is none included
        self._cleaned_resources: frozenset[str] | None = None  # the resources that there were at the last sweep
        self._cleanup: asyncio.Future[tuple[str, ...]] | None = None
        self._kept_names = KeptNames()
        self.retry_at: float | None = None

    @property
    def directory(self) -> str:
        """Where they are; empty where there is no such directory."""
        return self._files.directory if self._files else ""

    def mark_all_dirty(self) -> None:
        """Say that somebody may have changed files of ours."""
        for state in self._states.values():
            state.inputs = ()
        self._cleaned_resources = None
        self._on_change()

    async def refresh(
        self, lists: DeviceLists, specs: Sequence[ResourceSpec], offers: ResourceCandidates, held_ids: HeldIds
    ) -> SpecFaults:
        """Have all specs say what those lists need, and why some devices have none."""
        loop = asyncio.get_running_loop()
        if self.retry_at is not None and loop.time() >= self.retry_at:
            for spec in self._states.values():
                spec.inputs = () if spec.written_spec.faults else spec.inputs
        self.retry_at = None
        spec_resources = {spec.name for spec in specs if spec.via}
        is_clean = self._files is None or (self._cleaned_resources is not None and self._cleanup is None)
        if not spec_resources and not self._states and not self._existing_files and is_clean:
            return {}  # as with most agents
        entries = {spec.name: spec for spec in specs if not spec.is_addition}
        await self._remove_unused(lists)
        futures: list[asyncio.Future[WrittenSpec]] = []
        for resource, written in lists.written_names.items():
            if (written or resource) in spec_resources:
                slots, candidates = entries[written or resource].slots, offers.get((resource, written), _NONE)
                inputs = _ResourceInputs(lists.lists[resource], candidates, slots.count if slots else None)
                futures += self._start_refresh(resource, inputs, specs)
        for resource, device_list in lists.lists.items():
            if (lists.written_names.get(resource) or resource) not in spec_resources and self._has_file(resource):
                futures += self._start_refresh(resource, _ResourceInputs(device_list, _NONE, held_ids=held_ids), specs)
        if futures:
            await asyncio.wait(futures, timeout=ANSWER_SECONDS)
        faults = {resource: self._collect_faults(resource) for resource in self._states}
        for resource in self._states.keys() - lists.lists.keys():
            del self._states[resource]
        if any(faults.values()):
            self.retry_at = loop.time() + AGAIN_SECONDS
        return {resource: resource_faults for resource, resource_faults in faults.items() if resource_faults}

    def find_fault(self, resource: str, device: Device, edits: Edits) -> str:
        """Why a runtime would not find a device's spec, or one that says something else; empty if it does."""
        name, state = make_device_name(resource, device.id), self._states.get(resource)
        if state is None or self._files is None or name not in state.written_spec.edits:
            return f"{name} is in no CDI spec yet"
        if state.written_spec.edits[name] != edits:
            other_devices = {
                other: spec_device for other, spec_device in state.written_spec.devices.items() if other != name
            }
            state.written_spec = state.written_spec._replace(devices=other_devices)  # it is read again
            return f"{name}: its CDI spec is of something that has changed since"
        if self._files.read_version(make_file_name(resource)) != state.written_spec.version:
            return f"{name}: its CDI spec {self._files.get_path(make_file_name(resource))} was changed by somebody else"
        return ""

    def _has_file(self, resource: str) -> bool:
        """Whether there is a file of a resource, which may want none any more."""
        return make_file_name(resource) in self._existing_files

    async def _remove_unused(self, assembly: DeviceLists) -> None:
        """Remove what is of resources that are no more, once for each set of these.

        One that takes long is not waited for, and what it finds counts once it ends: then there is something to renew.
        """
        names = frozenset(assembly.lists)
        if self._files is None or (self._cleanup is None and names == self._cleaned_resources):
            return
        self._kept_names.names = frozenset(map(make_file_name, names))  # a sweep that has begun leaves what is new, too
        if self._cleanup is None:
            self._cleaned_resources = names
            self._cleanup = cleanup = start_in_thread(self._files.remove_except, self._kept_names)
            done, _ = await asyncio.wait([cleanup], timeout=ANSWER_SECONDS)
            if not done:
                cleanup.add_done_callback(lambda _: self._on_change())
        if self._cleanup.done():
            written_files = (
                make_file_name(resource) for resource, state in self._states.items() if state.written_spec.version
            )
            self._existing_files = frozenset((*self._cleanup.result(), *written_files))
            self._cleanup = None

    def _start_refresh(
        self, resource: str, inputs: _ResourceInputs, specs: Sequence[ResourceSpec]
    ) -> list[asyncio.Future[WrittenSpec]]:
        """Begin to renew a spec; nothing if it says what it should, or is being renewed already."""
        state = self._states.setdefault(resource, _SpecState())
        self._collect_faults(resource)
        new_inputs = (
            inputs.device_list,
            inputs.candidates,
            *([] if inputs.held_ids is None else [inputs.held_ids.ids]),
        )
        if state.future is not None or (
            len(state.inputs) == len(new_inputs)
            and all(request is previous_value for request, previous_value in zip(state.inputs, new_inputs, strict=True))
        ):
            return []
        state.inputs, state.is_late = new_inputs, False
        requests = {make_device_name(resource, request.device.id): request for request in inputs.find_requests(specs)}
        unchanged_devices = {
            name: spec_device
            for name, request in requests.items()
            if (spec_device := state.written_spec.devices.get(name)) and spec_device.matches(request)
        }
        new_requests = {name: request for name, request in requests.items() if name not in unchanged_devices}
        listed_names = frozenset(make_device_name(resource, device.id) for device in inputs.find_kept_devices())
        state.future = start_in_thread(
            self._builder.build_spec,
            SpecInputs(resource, unchanged_devices, new_requests, listed_names | requests.keys()),
        )
        state.future.add_done_callback(lambda _: self._on_change() if state.is_late else None)
        return [state.future]

    def _collect_faults(self, resource: str) -> Mapping[str, str]:
        """What has become of a spec, and why devices lack theirs."""
        state = self._states[resource]
        if state.future is not None and state.future.done():
            state.written_spec, state.future = state.future.result(), None
            name = {make_file_name(resource)}
            self._existing_files = (
                self._existing_files | name if state.written_spec.version else self._existing_files - name
            )
        if state.future is None:
            return state.written_spec.faults
        state.is_late = True
        return {"": f"its CDI spec: the host did not answer within {ANSWER_SECONDS:g} s"}


def add_spec_faults(
    offers: ResourceCandidates, faults: SpecFaults, specs: Sequence[ResourceSpec]
) -> ResourceCandidates:
    """Candidates, those without a spec that have to have one with that as their fault."""
    changed_offers = dict(offers)
    for (resource, written), candidates in offers.items():
        resource_faults = faults.get(resource)
        if resource_faults:
            changed_offers[resource, written] = {
                key: _add_fault(candidate, key, resource_faults, specs) for key, candidate in candidates.items()
            }
    return changed_offers


def _add_fault(candidate: Candidate, key: str, faults: Mapping[str, str], specs: Sequence[ResourceSpec]) -> Candidate:
    reason = faults.get(key) or faults.get("", "")
    return (
        replace(candidate, unhealthy_reason=Reason.of(reason))
        if reason and not candidate.reason and specs[candidate.entry].via
        else candidate
    )
