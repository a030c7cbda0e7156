"""The kernel log: /dev/kmsg from its oldest line, read without waiting (Documentation/ABI/testing/dev-kmsg).

A tree in place of the host may have a plain file there with the same lines. The shipped unit opens the log as standard
input of the agent. So the agent needs no capability and no other file is exposed: the kernel checks the right to read
when the file is opened (`devkmsg_open`), never when it is read.
"""

from __future__ import annotations

import errno
import logging
import os
import re
import stat
import time
from collections.abc import Callable, Iterator

from agent.core.entry.kernel_log import LogRecord
from agent.core.language.value import Absent
from agent.core.struct import Struct, replace
from agent.host.root import Root

KMSG = "/dev/kmsg"
STDIN = 0  # a unit opens the log here, so that the agent needs no right to open it

_DEVICE = os.makedev(1, 11)  # Documentation/admin-guide/devices.txt
_RECORD_SIZE = 1 << 16  # largest record in bytes: a longer one is lost (EINVAL). The kernel's have 8 KiB
_RECORD = re.compile(rb"([0-9]{1,10}),([0-9]{1,20}),([0-9]{1,20}),([^;]*);(.*)")
_ERROR_TEXTS = {errno.EPERM: "not permitted", errno.EACCES: "not permitted", errno.ENOENT: "there is none"}

log = logging.getLogger(__name__)


class _LogRecord(Struct):
    """A record of the log. is_from_kernel: the kernel wrote it, not a program that writes to /dev/kmsg."""

    number: int
    seconds: float
    text: str
    is_from_kernel: bool
    is_continuation: bool


class KernelLog:
    """Reader of the kernel log.

    Args:
        clock: seconds since boot, as in the time stamps of the kernel (`CLOCK_MONOTONIC`).

    Attributes:
        is_at_end: no more records for now, although the file counts as readable. Waiting for it would be a busy loop.
        overruns: how many times lines were lost.
    """

    def __init__(self, root: Root, clock: Callable[[], float] = time.monotonic) -> None:
        self._root = root
        self._clock = clock
        self.is_at_end = False
        self.overruns = 0
        self._handle: int | None = None
        self._is_plain_file = False
        self._partial_line = b""
        self._is_live = False
        self._last: _LogRecord | None = None

    @property
    def handle(self) -> int | None:
        """The file that becomes readable with new records, or None if the caller must poll."""
        return None if self._is_plain_file else self._handle

    def open(self) -> Absent | None:
        """Open the log at its oldest line.

        Return the reason if that fails. A tree without the file has an empty log.
        """
        self.close()
        try:
            self._handle = _open_standard_input() if not self._root.prefix else None
            if self._handle is None:
                self._handle = os.open(self._root.prefix + KMSG, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            self._is_plain_file = stat.S_ISREG(os.fstat(self._handle).st_mode)
        except OSError as error:
            self._is_plain_file = bool(self._root.prefix) and error.errno == errno.ENOENT
            reason = _ERROR_TEXTS.get(error.errno or 0, os.strerror(error.errno or errno.EIO))
            return None if self._is_plain_file else Absent(f"{KMSG} cannot be read: {reason}", unreadable=True)
        return None

    def close(self) -> None:
        """Close the log."""
        if self._handle is not None:
            os.close(self._handle)
        self._handle, self._is_plain_file, self._partial_line, self._is_live, self._last = None, False, b"", False, None

    def read_records(self, limit: int) -> tuple[LogRecord, ...] | None:
        """Read up to `limit` records. Return the lines of the kernel among them, or None if there is no record now."""
        if self._handle is None and self._is_plain_file:
            self.open()  # the file may exist by now
        if self._handle is None:
            return None
        self.is_at_end = False
        log_records = list(self._read_file_lines(limit) if self._is_plain_file else self._read_device_records(limit))
        self._is_live = self._is_live or not log_records
        if not log_records:
            return None
        return tuple(
            record
            for log_record in log_records
            if log_record is not None and (record := self._make_record(log_record)) is not None
        )

    def _make_record(self, record: _LogRecord) -> LogRecord | None:
        """Return a line with its time: the current time for a new line, the kernel's stamp for an earlier one."""
        previous, self._last = self._last, record
        if previous is not None and record.number > previous.number + 1 and self._is_live:
            self.overruns += 1
            log.warning("the kernel log overran: %d lines are lost", record.number - previous.number - 1)
        if not record.is_from_kernel:
            return None
        current_time = self._clock()
        if record.is_continuation:
            if previous is None or not previous.is_from_kernel or record.number != previous.number + 1:
                return None  # continues a line whose beginning is lost
            self._last = record = replace(record, text=previous.text + record.text)
        return LogRecord(
            record.number,
            current_time if self._is_live else min(record.seconds, current_time),
            record.text,
            record.is_continuation,
        )

    def _read_device_records(self, limit: int) -> Iterator[_LogRecord | None]:
        """Yield the next records. None takes the place of a lost or malformed one."""
        for _ in range(limit):
            try:
                data = os.read(self._handle or 0, _RECORD_SIZE)
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in {
                    errno.EPIPE,
                    errno.EINVAL,
                }:  # overrun, or a long record: the next read continues after it
                    yield None
                    continue
                log.warning("the kernel log: %s", error)
                data = b""
            if not data:
                self.is_at_end = True
                return
            yield _parse_record(data.partition(b"\n")[0])

    def _read_file_lines(self, limit: int) -> Iterator[_LogRecord | None]:
        """Yield the next records of a plain file. Continuation lines of a record begin with a blank."""
        while limit:
            line, end, remainder = self._partial_line.partition(b"\n")
            if not end:
                data = os.read(self._handle or 0, _RECORD_SIZE)
                if not data:
                    return
                # The beginning of an endless line is enough.
                self._partial_line = self._partial_line[:_RECORD_SIZE] + data
                continue
            self._partial_line = remainder
            limit -= 1
            yield _parse_record(line)


def _open_standard_input() -> int | None:
    """Return the log that the parent process opened, at its oldest line, or None if standard input is another file."""
    try:
        status = os.fstat(STDIN)
        if not stat.S_ISCHR(status.st_mode) or status.st_rdev != _DEVICE:
            return None
        handle = os.dup(STDIN)
    except OSError:
        return None
    try:
        os.set_blocking(handle, False)
        os.lseek(handle, 0, os.SEEK_SET)
    except OSError:
        os.close(handle)
        raise
    return handle


def _parse_record(line: bytes) -> _LogRecord | None:
    """Return a record, parsed from its first line, or None if the line is malformed."""
    match = _RECORD.fullmatch(line)
    if match is None:
        return None
    text = match[5].decode("utf-8", "replace")
    flags = match[4].partition(b",")[0]
    return _LogRecord(int(match[2]), int(match[3]) / 1e6, text, int(match[1]) >> 3 == 0, flags in {b"c", b"+"})
