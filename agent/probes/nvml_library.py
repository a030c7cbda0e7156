"""The calls of NVIDIA's management library that the probe needs, as in nvml.h.

The library hangs and crashes on defective GPUs.
"""

from __future__ import annotations

import ctypes

LIBRARY = "libnvidia-ml.so.1"
# DRIVER_NOT_LOADED, LIBRARY_NOT_FOUND, LIB_RM_VERSION_MISMATCH: nothing to report, for now.
UNAVAILABLE_CODES = (9, 12, 18)
TIMEOUT, LOST = 10, 15
XID = 0x8  # nvmlEventTypeXidCriticalError
WHOLE_GPU = 0xFFFFFFFF  # in place of an instance ID: the event belongs to the whole GPU
RECOVERY = 230  # NVML_FI_DEV_GET_GPU_RECOVERY_ACTION


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
