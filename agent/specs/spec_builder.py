"""Builds one generated CDI spec from host facts, and writes its file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import NamedTuple

from agent.core.entry.generated_cdi import Edits, build_spec, make_file_name, parse_spec, render_spec
from agent.core.grants.build_grant import build_spec_edits
from agent.core.grants.grant import GrantRefusedError
from agent.core.language.value import Absent
from agent.host.cdi_spec_file import SpecFiles
from agent.host.cdi_specs import SpecDirectories
from agent.host.root import Root
from agent.reread import DeviceRequest, reread_devices
from agent.scanners.host_reader import HostView


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


class SpecBuilder:
    """The builder of specs. Each call runs in a thread.

    specs: all specs, which show other specs with the same names. files: the generated files, or None without a
    directory.
    """

    def __init__(self, root: Root, specs: SpecDirectories, files: SpecFiles | None) -> None:
        self._root = root
        self._specs = specs
        self._files = files

    def build_spec(self, inputs: SpecInputs) -> WrittenSpec:
        """Read the devices and write the changed file."""
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
        """Return the edits of each device, and the faults of the others by device key."""
        devices, faults = dict(inputs.unchanged_devices), dict[str, str]()
        requests = list(inputs.requests.items())
        reread = reread_devices(HostView(self._root, self._specs), [request for _, request in requests])
        for (name, request), device in zip(requests, reread, strict=True):
            try:
                devices[name] = SpecDevice(request, build_spec_edits(request.spec, device, inputs.resource))
            except GrantRefusedError as error:
                faults[request.device.key] = f"its CDI spec: {error.text}"
        return devices, faults
