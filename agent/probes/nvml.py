"""NVIDIA's management library as a probe: facts of GPUs and MIG instances that are in no file of the kernel.

Run it with `python -m agent.probes.nvml`. For each GPU, by PCI address, it reports Xid events, retired rows and pages,
and the recovery action that the driver requests. The fields are `uuid`, `name`, `minor` and `mig` (1: MIG mode is on).
For each MIG instance, by its directory below /proc/driver/nvidia/capabilities, it reports the events of that instance
alone. The fields are `uuid` and `profile`. On a host without the library the probe is off, in one line.

The library hangs and crashes on defective GPUs, so this is a separate process. A value that a GPU does not know or
refuses is no fault of this GPU or another one.

Reading events keeps /dev/nvidia* open. Then a GPU cannot be reset and its MIG mode cannot be changed. With
`--no-events` the library is opened for each round and closed again.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import sys
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

LIBRARY = "libnvidia-ml.so.1"
# DRIVER_NOT_LOADED, LIBRARY_NOT_FOUND, LIB_RM_VERSION_MISMATCH: nothing to report, for now.
UNAVAILABLE_CODES = (9, 12, 18)
TIMEOUT, LOST = 10, 15
XID = 0x8  # nvmlEventTypeXidCriticalError
WHOLE_GPU = 0xFFFFFFFF  # in place of an instance ID: the event belongs to the whole GPU
RECOVERY = 230  # NVML_FI_DEV_GET_GPU_RECOVERY_ACTION
_ACTIONS = {1: "reset of the GPU", 2: "reboot of the node", 3: "drain of its peers", 4: "drain and reset"}
_APPLICATIONS = "13,31,43,45,68,109"  # Xids that applications cause, from NVIDIA's device plugin
_CAPABILITIES = "/proc/driver/nvidia/capabilities"


class NvmlPciInfo(ctypes.Structure):
    """The structure nvmlPciInfo_t."""

    _fields_ = (
        ("busIdLegacy", ctypes.c_char * 16),
        *((name, ctypes.c_uint) for name in ("domain", "bus", "device", "pciDeviceId", "pciSubSystemId")),
        ("busId", ctypes.c_char * 32),
    )


class NvmlEvent(ctypes.Structure):
    """The structure nvmlEventData_t."""

    _fields_ = (
        ("device", ctypes.c_void_p),
        ("eventType", ctypes.c_ulonglong),
        ("eventData", ctypes.c_ulonglong),
        ("gpuInstanceId", ctypes.c_uint),
        ("computeInstanceId", ctypes.c_uint),
    )


class NvmlField(ctypes.Structure):
    """The structure nvmlFieldValue_t."""

    _fields_ = (
        ("fieldId", ctypes.c_uint),
        ("scopeId", ctypes.c_uint),
        ("timestamp", ctypes.c_longlong),
        ("latencyUsec", ctypes.c_longlong),
        ("valueType", ctypes.c_uint),
        ("nvmlReturn", ctypes.c_uint),
        ("value", ctypes.c_uint),
        ("rest", ctypes.c_uint),
    )


class NvmlError(Exception):
    """A call failed. `code` is its result."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


class Nvml:
    """The library, with its functions by name."""

    def __init__(self, path: str) -> None:
        self._library = ctypes.CDLL(path)

    def __call__(self, name: str, *arguments: object) -> None:
        """Call a function.

        Raises:
            NvmlError: the call failed. A function that an older library lacks counts as not supported.
        """
        function = getattr(self._library, name, None)
        if function is None:
            raise NvmlError(3, f"{name}: not in this library")
        code = function(*arguments)
        if code:
            raise NvmlError(code, f"{name}: NVML error {code}")

    def read_number(self, name: str, *arguments: object) -> int | None:
        """Return the number that a function gives, or None if it fails."""
        value = ctypes.c_uint()
        try:
            self(name, *arguments, ctypes.byref(value))
        except NvmlError:
            return None
        return value.value

    def read_text(self, name: str, handle: ctypes.c_void_p) -> str | None:
        """Return the text that a function gives, or None if it fails."""
        buffer = ctypes.create_string_buffer(96)
        try:
            self(name, handle, buffer, ctypes.c_uint(len(buffer)))
        except NvmlError:
            return None
        return buffer.value.decode("ascii", "replace")


class GpuLocation(NamedTuple):
    """A GPU or a MIG instance.

    name: its location for the agent.
    number: the index of its GPU.
    key: its identity in events.
    """

    name: str
    number: int
    handle: ctypes.c_void_p
    key: tuple[int, int, int]
    is_gpu: bool


class NvmlProbe:
    """The probe of all GPUs.

    Args:
        ignored: Xids that are no fault of the hardware.
        hold: seconds for which any other Xid makes its location unhealthy.
        send: writes one line of the protocol.
    """

    def __init__(self, nvml: Nvml, ignored: frozenset[int], hold: float, send: Callable[..., None]) -> None:
        self._nvml = nvml
        self._ignored = ignored
        self._hold = hold
        self._send = send
        self._xids: dict[tuple[int, int, int], tuple[float, int]] = {}
        self._events: ctypes.c_void_p | None = None
        self._watched: set[int] = set()
        self._reported: dict[str, int] = {}
        self._errors: dict[int, NvmlError] = {}

    def report_round(self) -> None:
        """Report all locations, and those of the last round that are lost or removed."""
        previous, self._reported = self._reported, {}
        for location in self._list_locations():
            self._report_location(location)
            self._reported[location.name] = location.number
        for name, index in previous.items():
            if name not in self._reported:
                self._report_missing(name, index)
        self._send(complete=True)

    def _report_missing(self, name: str, index: int) -> None:
        error = self._errors.get(index)
        if error is None:
            self._send(place=name, gone=True)
            return
        self._reported[name] = index
        self._send(place=name, healthy=False if error.code == LOST else None, reason=str(error))

    def wait_for_events(self, seconds: float) -> None:
        """Wait for events for that many seconds and report each one at once."""
        deadline = time.monotonic() + seconds
        if self._events is None or not self._watched:
            time.sleep(seconds)
            return
        while (remaining := deadline - time.monotonic()) > 0:
            event = NvmlEvent()
            try:
                self._nvml(
                    "nvmlEventSetWait_v2", self._events, ctypes.byref(event), ctypes.c_uint(int(remaining * 1000) + 1)
                )
            except NvmlError as error:
                if error.code != TIMEOUT:
                    raise
                return
            if event.eventType == XID and event.eventData not in self._ignored:
                key = (event.device or 0, event.gpuInstanceId, event.computeInstanceId)
                self._xids[key] = time.monotonic(), event.eventData
                self.report_round()

    def register_events(self) -> None:
        """Register for events of all GPUs that have events."""
        events = ctypes.c_void_p()
        self._nvml("nvmlEventSetCreate", ctypes.byref(events))
        self._events = events
        for location in self._list_locations():
            if location.is_gpu:
                try:
                    self._nvml("nvmlDeviceRegisterEvents", location.handle, ctypes.c_ulonglong(XID), events)
                except NvmlError:
                    continue  # the board is too old for events
                self._watched.add(location.key[0])

    def _list_locations(self) -> Iterator[GpuLocation]:
        self._errors.clear()
        for index in range(self._nvml.read_number("nvmlDeviceGetCount_v2") or 0):
            handle, pci = ctypes.c_void_p(), NvmlPciInfo()
            try:
                self._nvml("nvmlDeviceGetHandleByIndex_v2", ctypes.c_uint(index), ctypes.byref(handle))
                self._nvml("nvmlDeviceGetPciInfo_v3", handle, ctypes.byref(pci))
            except NvmlError as error:
                _write(f"GPU {index}: {error}")  # not in the protocol: the agent shows it as a note
                self._errors[index] = error
                continue
            address = pci.busId.decode("ascii", "replace").lower()
            domain, _, bus_address = address.partition(":")
            name = f"{int(domain or '0', 16):04x}:{bus_address}"
            yield GpuLocation(name, index, handle, (handle.value or 0, WHOLE_GPU, WHOLE_GPU), is_gpu=True)
            yield from self._list_instances(index, handle)

    def _list_instances(self, gpu_index: int, gpu: ctypes.c_void_p) -> Iterator[GpuLocation]:
        minor = self._nvml.read_number("nvmlDeviceGetMinorNumber", gpu)
        for index in range(self._nvml.read_number("nvmlDeviceGetMaxMigDeviceCount", gpu) or 0):
            handle = ctypes.c_void_p()
            try:
                self._nvml("nvmlDeviceGetMigDeviceHandleByIndex", gpu, ctypes.c_uint(index), ctypes.byref(handle))
            except NvmlError:
                continue  # no MIG device has this index
            gi = self._nvml.read_number("nvmlDeviceGetGpuInstanceId", handle)
            ci = self._nvml.read_number("nvmlDeviceGetComputeInstanceId", handle)
            if minor is not None and gi is not None and ci is not None:
                name = f"{_CAPABILITIES}/gpu{minor}/mig/gi{gi}/ci{ci}"
                yield GpuLocation(name, gpu_index, handle, (gpu.value or 0, gi, ci), is_gpu=False)

    def _report_location(self, location: GpuLocation) -> None:
        fault = self._describe_xid(location) or (self._describe_fault(location.handle) if location.is_gpu else "")
        self._send(place=location.name, healthy=not fault, reason=fault or None)
        name = self._nvml.read_text("nvmlDeviceGetName", location.handle)
        fields: dict[str, str | int | None] = {"uuid": self._nvml.read_text("nvmlDeviceGetUUID", location.handle)}
        if location.is_gpu:
            fields |= {"name": name, "minor": self._nvml.read_number("nvmlDeviceGetMinorNumber", location.handle)}
            fields["mig"] = self._read_mig_mode(location.handle)
        else:
            fields["profile"] = name.rpartition(" MIG ")[2] if name and " MIG " in name else None
        for field, value in fields.items():
            if value is not None:
                self._send(place=location.name, field=field, value=value)

    def _read_mig_mode(self, gpu: ctypes.c_void_p) -> int | None:
        """Return whether MIG mode is on now. The last result of the function is the mode after a reset."""
        current_mode = ctypes.c_uint()
        pending_mode = self._nvml.read_number("nvmlDeviceGetMigMode", gpu, ctypes.byref(current_mode))
        return None if pending_mode is None else current_mode.value

    def _describe_xid(self, location: GpuLocation) -> str:
        """Return the last Xid of a location while it counts as a fault, else an empty string."""
        since, xid = self._xids.get(location.key, (float("-inf"), 0))
        return f"Xid {xid}" if time.monotonic() < since + self._hold else ""

    def _describe_fault(self, gpu: ctypes.c_void_p) -> str:
        """Return the fault of a GPU that only a reset or a repair can end, or an empty string."""
        field = NvmlField(fieldId=RECOVERY)
        try:
            self._nvml("nvmlDeviceGetFieldValues", gpu, ctypes.c_int(1), ctypes.byref(field))
        except NvmlError as error:
            field.nvmlReturn = error.code
        if field.nvmlReturn == LOST:
            return "the GPU is lost"
        if not field.nvmlReturn and field.value:
            return f"the driver asks for a {_ACTIONS.get(field.value, f'recovery ({field.value})')}"
        rows = [ctypes.c_uint() for _ in range(4)]  # correctable, uncorrectable, pending, failed
        try:
            self._nvml("nvmlDeviceGetRemappedRows", gpu, *map(ctypes.byref, rows))
        except NvmlError:
            return (
                "pages wait to be retired"
                if self._nvml.read_number("nvmlDeviceGetRetiredPagesPendingStatus", gpu)
                else ""
            )
        return "rows cannot be remapped" if rows[3].value else "rows wait to be remapped" if rows[2].value else ""


def _send_line(**line: object) -> None:
    _write(json.dumps(line))


def _write(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main(arguments: list[str]) -> int:
    """Report until the process ends. Return the exit code."""
    parser = argparse.ArgumentParser(prog="agent.probes.nvml", description="NVIDIA's management library as a probe")
    parser.add_argument("--library", default=LIBRARY)
    parser.add_argument("--every", type=float, default=10.0, metavar="SECONDS", help="between two rounds")
    parser.add_argument("--ignore", default=_APPLICATIONS, metavar="XIDS", help="Xids that are no fault")
    parser.add_argument("--hold", type=float, default=600.0, metavar="SECONDS", help="for which another one is")
    parser.add_argument("--no-events", action="store_true", help="keep no device open between rounds")
    options = parser.parse_args(arguments)
    try:
        nvml = Nvml(options.library)
    except OSError as error:
        _send_line(off=" ".join(str(error).split()))
        return 0
    probe = NvmlProbe(nvml, frozenset(int(xid) for xid in options.ignore.split(",") if xid), options.hold, _send_line)
    try:
        nvml("nvmlInit_v2")
        if not options.no_events:
            probe.register_events()
        while True:
            probe.report_round()
            if options.no_events:
                nvml("nvmlShutdown")
                time.sleep(options.every)
                nvml("nvmlInit_v2")
            else:
                probe.wait_for_events(options.every)
    except NvmlError as error:
        if error.code in UNAVAILABLE_CODES:
            _send_line(off=str(error))
            return 0
        _write(str(error))
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
