"""A loop device for a test: a real device with content, which disappears with its holder, even after a kill."""

import errno
import fcntl
import os
import struct
from typing import Self

CONTROL = "/dev/loop-control"
GET_FREE, CONFIGURE = 0x4C82, 0x4C0A
AUTOCLEAR = 4
# struct loop_config: fd, block size, struct loop_info64 of 232 bytes, 8 reserved numbers
FLAGS_AT, INFO_SIZE = 52, 232


class Loop:
    """Attributes: number: it is /dev/loopNUMBER."""

    def __init__(self, content: bytes) -> None:
        self._file = os.memfd_create("loop")
        os.write(self._file, content.ljust(1 << 20, b"\n"))
        control = os.open(CONTROL, os.O_RDWR | os.O_CLOEXEC)
        try:
            self.number, self._device = self._claimed(control)
        finally:
            os.close(control)

    def _claimed(self, control: int) -> tuple[int, int]:
        info = bytearray(INFO_SIZE)
        struct.pack_into("I", info, FLAGS_AT, AUTOCLEAR)
        request = struct.pack("II", self._file, 0) + bytes(info) + bytes(64)
        for _ in range(16):  # somebody else may take it first
            number = fcntl.ioctl(control, GET_FREE)
            device = os.open(f"/dev/loop{number}", os.O_RDWR | os.O_CLOEXEC)
            try:
                fcntl.ioctl(device, CONFIGURE, request)
            except OSError as error:
                os.close(device)
                if error.errno != errno.EBUSY:
                    raise
                continue
            return number, device
        raise OSError(errno.EBUSY, "no free loop device")

    def content(self) -> bytes:
        return os.pread(self._file, 1 << 20, 0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._device)
        os.close(self._file)
