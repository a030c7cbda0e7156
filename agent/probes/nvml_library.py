"""NVIDIA's management library, as nvml.h has it: what the probe calls of it. It hangs and crashes on sick GPUs."""

from __future__ import annotations

import ctypes

LIBRARY = "libnvidia-ml.so.1"
UNAVAILABLE_CODES = (
    9,
    12,
    18,
)  # DRIVER_NOT_LOADED, LIBRARY_NOT_FOUND, LIB_RM_VERSION_MISMATCH: nothing to report, for now
TIMEOUT, LOST = 10, 15
XID = 0x8  # nvmlEventTypeXidCriticalError
WHOLE_GPU = 0xFFFFFFFF  # instead of the id of an instance: the event is of the whole GPU
RECOVERY = 230  # NVML_FI_DEV_GET_GPU_RECOVERY_ACTION


class NvmlPciInfo(ctypes.Structure):
    """nvmlPciInfo_t."""

    _fields_ = (
        ("busIdLegacy", ctypes.c_char * 16),
        *((name, ctypes.c_uint) for name in ("domain", "bus", "device", "pciDeviceId", "pciSubSystemId")),
        ("busId", ctypes.c_char * 32),
    )


class NvmlEvent(ctypes.Structure):
    """nvmlEventData_t."""

    _fields_ = (
        ("device", ctypes.c_void_p),
        ("eventType", ctypes.c_ulonglong),
        ("eventData", ctypes.c_ulonglong),
        ("gpuInstanceId", ctypes.c_uint),
        ("computeInstanceId", ctypes.c_uint),
    )


class NvmlField(ctypes.Structure):
    """nvmlFieldValue_t."""

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
    """A call that failed, with its code."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


class Nvml:
    """The library, its functions by name."""

    def __init__(self, path: str) -> None:
        self._library = ctypes.CDLL(path)

    def __call__(self, name: str, *arguments: object) -> None:
        """Call a function; one that an older library has not is not supported."""
        function = getattr(self._library, name, None)
        if function is None:
            raise NvmlError(3, f"{name}: not in this library")
        code = function(*arguments)
        if code:
            raise NvmlError(code, f"{name}: NVML error {code}")

    def read_number(self, name: str, *arguments: object) -> int | None:
        """The number that a function gives, None where it does not."""
        value = ctypes.c_uint()
        try:
            self(name, *arguments, ctypes.byref(value))
        except NvmlError:
            return None
        return value.value

    def read_text(self, name: str, handle: ctypes.c_void_p) -> str | None:
        """The text that a function gives, None where it does not."""
        buffer = ctypes.create_string_buffer(96)
        try:
            self(name, handle, buffer, ctypes.c_uint(len(buffer)))
        except NvmlError:
            return None
        return buffer.value.decode("ascii", "replace")
