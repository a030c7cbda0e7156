"""Generated CDI specs: written before the list with their devices, removed after the last pod ends.

A device stays in its spec while it is listed. If the device cannot be read, it keeps its last edits. The kubelet uses
the CDI name again at each start of a container, during the whole life of the pod.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from agent.core.changes import has_changed
from agent.core.entry.generated_cdi import Edits, build_spec, make_device_name, make_file_name, parse_spec, render_spec
from agent.core.entry.resource_spec import ResourceSpec
from agent.core.grants.build_grant import build_spec_edits
from agent.core.grants.grant import GrantRefusedError
from agent.core.inventory.candidate import Candidate
from agent.core.inventory.device import Device, DeviceList, Health
from agent.core.language.value import Absent
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
from agent.reread import DeviceRequest, reread_devices
from agent.scanners.host_reader import HostView

ANSWER_SECONDS = 1.0  # for the reads of one spec, which delay the lists
AGAIN_SECONDS = 5.0  # between two attempts to write

_NONE: Mapping[str, Candidate] = {}  # one object, because it is compared by identity

SpecFaults: TypeAlias = Mapping[str, Mapping[str, str]]  # reasons of devices without a spec, by resource and device key


class SpecDevice(NamedTuple):
    """The edits of a device in its spec, and their source."""

    request: DeviceRequest
    edits: Edits

    def matches(self, other: DeviceRequest) -> bool:
        """Return whether the device was not read again since."""
        own_request = self.request
        return (
            own_request.candidate is other.candidate
            and own_request.spec is other.spec
            and own_request.device.id == other.device.id
        )


class SpecInputs(NamedTuple):
    """The inputs of one spec.

    unchanged_devices: devices that need no new read. requests: devices that need a read. listed_names: all devices that
    may keep their old edits.
    """

    resource: str
    unchanged_devices: Mapping[str, SpecDevice]
    requests: Mapping[str, DeviceRequest]
    listed_names: frozenset[str]


class WrittenSpec(NamedTuple):
    """The result of a build: devices and edits by full name, faults by device key, and the version of the file."""

    devices: Mapping[str, SpecDevice]
    edits: Mapping[str, Edits]
    faults: Mapping[str, str]
    version: tuple[int, ...] = ()


def _write_spec(host: HostView, files: SpecFiles | None, inputs: SpecInputs) -> WrittenSpec:
    """Read the devices and write the changed file. This runs in a thread.

    files: the generated files, or None without a directory.
    """
    devices, faults = _read_devices(host, inputs)
    requests = [*inputs.requests.values(), *(device.request for device in inputs.unchanged_devices.values())]
    keys = {request.device.key for request in requests}
    if files is None:
        return WrittenSpec(devices, {}, dict.fromkeys(keys, "its CDI spec: paths.cdi names no directory for it"))
    name = make_file_name(inputs.resource)
    try:
        previous_edits = parse_spec(files.read(name) or b"", files.owner) or {}
        kept_edits = {
            device_name: device_edits
            for device_name, device_edits in previous_edits.items()
            if device_name in inputs.listed_names
        }
        edits = kept_edits | {device_name: device.edits for device_name, device in devices.items()}
        data = render_spec(build_spec(inputs.resource, edits), files.owner) if edits else None
        files.put(name, data)
    except OSError as error:
        error_text = os.strerror(error.errno) if error.errno else error.strerror
        reason = f"its CDI spec {files.get_path(name)}: {error_text}"
        return WrittenSpec(devices, {}, {**dict.fromkeys(keys, reason), **faults})
    specs = host.cdi.read(host.root)
    for device_name, device in devices.items():
        if isinstance(absence := specs.find_file(device_name), Absent):
            faults[device.request.device.key] = f"its CDI spec: {device_name} {absence.reason}"
    return WrittenSpec(devices, edits, faults, files.read_version(name))


def _read_devices(host: HostView, inputs: SpecInputs) -> tuple[dict[str, SpecDevice], dict[str, str]]:
    """Return the edits of each device, and the faults of the others by device key."""
    devices, faults = dict(inputs.unchanged_devices), dict[str, str]()
    requests = list(inputs.requests.items())
    reread = reread_devices(host, [request for _, request in requests])
    for (name, request), device in zip(requests, reread, strict=True):
        try:
            devices[name] = SpecDevice(request, build_spec_edits(request.spec, device, inputs.resource))
        except GrantRefusedError as error:
            faults[request.device.key] = f"its CDI spec: {error.text}"
    return devices, faults


class _SpecState(MutableStruct):
    """The spec of one resource.

    inputs: the inputs of the last refresh. Equal inputs need no refresh. is_late: the refresh timed out and still runs.
    """

    inputs: tuple[object, ...] = ()
    written_spec: WrittenSpec = field(default_factory=lambda: WrittenSpec({}, {}, {}))
    future: asyncio.Future[WrittenSpec] | None = None
    is_late: bool = False


class _ResourceInputs(NamedTuple):
    """The list and the candidates of a resource, and its number of slots, if it has slots.

    held_ids: the IDs that pods use, if the entry no longer wants a spec.
    """

    device_list: DeviceList
    candidates: Mapping[str, Candidate]
    slot_count: int | None = None
    held_ids: HeldIds | None = None

    def find_requests(self, specs: Sequence[ResourceSpec]) -> Iterator[DeviceRequest]:
        """Yield the devices that a spec describes. For a resource with slots, the devices that each slot gives."""
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
            if device_candidate is None or device_candidate.is_in_pod:  # a device in a pod keeps its edits
                continue
            if device.health is Health.HEALTHY and specs[device_candidate.entry].via:
                yield DeviceRequest(device, (), device_candidate, specs[device_candidate.entry])

    def find_kept_devices(self) -> Iterator[Device]:
        """Return the devices that keep their edits, if there are no newer ones."""
        return (device for device in self.device_list.devices if self.held_ids is None or self.held_ids.is_held(device))


class KeptNames:
    """File names that a cleanup keeps. They can change while the cleanup runs."""

    def __init__(self) -> None:
        self.names: frozenset[str] = frozenset()

    def __contains__(self, name: object) -> bool:
        return name in self.names


class GeneratedSpecs:
    """The specs of all resources with generated specs.

    Args:
        owner: identifies this agent on the host.
        specs: all spec directories. They show other specs with the same names. The last one gets the generated specs.
        on_change: called when a refresh is necessary without a new list.
    """

    def __init__(self, root: Root, owner: str, specs: SpecDirectories, on_change: Callable[[], None]) -> None:
        self._files = SpecFiles(root, specs.directories[-1], owner) if specs.directories else None
        self._host = HostView(root, specs)
        self._on_change = on_change
        self._states: dict[str, _SpecState] = {}
        self._existing_files: frozenset[str] = frozenset()  # generated spec files, also of removed resources
        self._cleaned_resources: frozenset[str] | None = None  # the resources at the last cleanup
        self._cleanup: asyncio.Future[tuple[str, ...]] | None = None
        self._kept_names = KeptNames()
        self.retry_at: float | None = None

    @property
    def directory(self) -> str:
        """The directory of the specs, or an empty string."""
        return self._files.directory if self._files else ""

    def mark_all_dirty(self) -> None:
        """Mark all specs as dirty, because another process may have changed a file."""
        for state in self._states.values():
            state.inputs = ()
        self._cleaned_resources = None
        self._on_change()

    async def refresh(
        self, lists: DeviceLists, specs: Sequence[ResourceSpec], offers: ResourceCandidates, held_ids: HeldIds
    ) -> SpecFaults:
        """Write all specs that these lists need. Return the faults of devices without a spec."""
        loop = asyncio.get_running_loop()
        if self.retry_at is not None and loop.time() >= self.retry_at:
            for spec in self._states.values():
                spec.inputs = () if spec.written_spec.faults else spec.inputs
        self.retry_at = None
        spec_resources = {spec.name for spec in specs if spec.via}
        is_clean = self._files is None or (self._cleaned_resources is not None and self._cleanup is None)
        if not spec_resources and not self._states and not self._existing_files and is_clean:
            return {}  # no entry uses generated specs
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
        """Return why a runtime cannot use the spec of a device, or an empty string.

        The spec can be missing, can differ from `edits`, or another process can have changed its file.
        """
        name, state = make_device_name(resource, device.id), self._states.get(resource)
        if state is None or self._files is None or name not in state.written_spec.edits:
            return f"{name} is in no CDI spec yet"
        if state.written_spec.edits[name] != edits:
            other_devices = {
                other: spec_device for other, spec_device in state.written_spec.devices.items() if other != name
            }
            state.written_spec = state.written_spec._replace(
                devices=other_devices
            )  # the next refresh reads this device again
            return f"{name}: its CDI spec is of something that has changed since"
        if self._files.read_version(make_file_name(resource)) != state.written_spec.version:
            return f"{name}: its CDI spec {self._files.get_path(make_file_name(resource))} was changed by somebody else"
        return ""

    def _has_file(self, resource: str) -> bool:
        """Return whether a spec file of this resource exists."""
        return make_file_name(resource) in self._existing_files

    async def _remove_unused(self, assembly: DeviceLists) -> None:
        """Remove the files of resources that no longer exist, once for each set of resources.

        A slow cleanup does not delay the lists. Its result is used after its end, and then causes a refresh.
        """
        names = frozenset(assembly.lists)
        if self._files is None or (self._cleanup is None and names == self._cleaned_resources):
            return
        self._kept_names.names = frozenset(map(make_file_name, names))  # a running cleanup also keeps the new names
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
        """Start to refresh a spec. Return nothing if the spec is up to date, or a refresh runs."""
        state = self._states.setdefault(resource, _SpecState())
        self._collect_faults(resource)
        new_inputs = (
            inputs.device_list,
            inputs.candidates,
            *([] if inputs.held_ids is None else [inputs.held_ids.ids]),
        )
        if state.future is not None or not has_changed(state.inputs, new_inputs):
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
            _write_spec,
            self._host,
            self._files,
            SpecInputs(resource, unchanged_devices, new_requests, listed_names | requests.keys()),
        )
        state.future.add_done_callback(lambda _: self._on_change() if state.is_late else None)
        return [state.future]

    def _collect_faults(self, resource: str) -> Mapping[str, str]:
        """Take the result of a finished refresh, and return the faults of devices by key."""
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
    """Return the candidates, with an unhealthy reason for each device whose necessary spec is missing."""
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
        replace(candidate, unhealthy_reason=Reason.from_text(reason))
        if reason and not candidate.reason and specs[candidate.entry].via
        else candidate
    )
