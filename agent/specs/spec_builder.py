"""The making of one CDI spec of our own: what its devices have, read from the host, and its file as that wants it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import NamedTuple

from agent.core.entry.generated_cdi import Edits, build_spec, make_file_name, parse_spec, render_spec
from agent.core.grants.build_grant import edits_of
from agent.core.grants.grant import GrantRefusedError
from agent.core.language.value import Absent
from agent.host.cdi_spec_file import SpecFiles
from agent.host.cdi_specs import SpecDirectories
from agent.host.root import Root
from agent.reread import DeviceRequest, reread_devices


class SpecDevice(NamedTuple):
    """What a device has in its spec, and what that was made of."""

    request: DeviceRequest
    edits: Edits

    def matches(self, other: DeviceRequest) -> bool:
        """Whether nothing of it was looked at again."""
        own_request = self.request
        return (
            own_request.candidate is other.candidate
            and own_request.spec is other.spec
            and own_request.device.id == other.device.id
        )


class SpecInputs(NamedTuple):
    """What is to be in a spec.

    known: what need not be read again. asked: what has to be. listed: all that may stay as it was.
    """

    resource: str
    unchanged_devices: Mapping[str, SpecDevice]
    requests: Mapping[str, DeviceRequest]
    listed_names: frozenset[str]


class WrittenSpec(NamedTuple):
    """What a spec says now, by the full names of its devices; why it lacks some, by key; how its file is known."""

    devices: Mapping[str, SpecDevice]
    edits: Mapping[str, Edits]
    faults: Mapping[str, str]
    version: tuple[int, ...] = ()


class SpecBuilder:
    """Makes specs, each call in a thread.

    specs: all specs, to see what else has a name of ours. files: ours; none where there is no directory for them.
    """

    def __init__(self, root: Root, specs: SpecDirectories, files: SpecFiles | None) -> None:
        self._root = root
        self._specs = specs
        self._files = files

    def build_spec(self, inputs: SpecInputs) -> WrittenSpec:
        """Read what has to be, and write what has changed."""
        devices, faults = self._read_devices(inputs)
        keys = {device_name.device.key for device_name in inputs.requests.values()} | {
            device_name.request.device.key for device_name in inputs.unchanged_devices.values()
        }
        if self._files is None:
            return WrittenSpec(devices, {}, dict.fromkeys(keys, "its CDI spec: paths.cdi names no directory for it"))
        name = make_file_name(inputs.resource)
        try:
            previous_edits = parse_spec(self._files.read(name) or b"", self._files.owner) or {}
            edits = {
                device_name: previous_edits[device_name]
                for device_name in previous_edits
                if device_name in inputs.listed_names
            } | {device_name: device.edits for device_name, device in devices.items()}
            data = render_spec(build_spec(inputs.resource, edits), self._files.owner) if edits else None
            self._files.put(name, data)
        except OSError as error:
            error_text = os.strerror(error.errno) if error.errno else error.strerror
            reason = f"its CDI spec {self._files.get_path(name)}: {error_text}"
            return WrittenSpec(devices, {}, {**dict.fromkeys(keys, reason), **faults})
        specs = self._specs.read(self._root)
        for device_name, device in devices.items():
            if isinstance(absence := specs.find_file(device_name), Absent):
                faults[device.request.device.key] = f"its CDI spec: {device_name} {absence.reason}"
        return WrittenSpec(devices, edits, faults, self._files.read_version(name))

    def _read_devices(self, inputs: SpecInputs) -> tuple[dict[str, SpecDevice], dict[str, str]]:
        """What each device has, and why that cannot be said of some, by key."""
        devices, faults = dict(inputs.unchanged_devices), dict[str, str]()
        requests = list(inputs.requests.items())
        reread = reread_devices(self._root, [request for _, request in requests], self._specs)
        for (name, request), device in zip(requests, reread, strict=True):
            try:
                devices[name] = SpecDevice(request, edits_of(request.spec, device, inputs.resource))
            except GrantRefusedError as error:
                faults[request.device.key] = f"its CDI spec: {error.text}"
        return devices, faults
