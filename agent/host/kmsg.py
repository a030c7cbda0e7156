"""The kernel log: /dev/kmsg from its oldest line on, without ever waiting (Documentation/ABI/testing/dev-kmsg).

A tree in place of the host may have a plain file there with the same lines.
The shipped unit opens it as our standard input, so that no capability is needed and nothing else is shown: whether
it may be read is asked when it is opened (`devkmsg_open`), never when it is read.
"""

from __future__ import annotations

import errno
import logging
import os
import re
import stat
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

from agent.core.entry.kernel_log_check import LogRecord
from agent.core.language.value import Absent
from agent.host.root import Root

KMSG = "/dev/kmsg"
STDIN = 0  # where a unit hands the open log over: whoever reads it needs no right to open it then

_DEVICE = os.makedev(1, 11)  # Documentation/admin-guide/devices.txt
_ONE = 1 << 16  # bytes of a record at most: one that does not fit is lost (EINVAL), and the kernel's have 8 KiB
_RECORD = re.compile(rb"([0-9]{1,10}),([0-9]{1,20}),([0-9]{1,20}),([^;]*);(.*)")
_MEANS = {errno.EPERM: "not permitted", errno.EACCES: "not permitted", errno.ENOENT: "there is none"}

log = logging.getLogger(__name__)


class _Said(NamedTuple):
    """A record as it stands in the log. kernel: the kernel says it, and no program that wrote to /dev/kmsg."""

    number: int
    stamp: float
    text: str
    kernel: bool
    continues: bool


class KernelLog:
    """The kernel log, read on and on.

    Args:
        clock: the seconds since boot, as the kernel stamps its lines (`CLOCK_MONOTONIC`).

    Attributes:
        ended: nothing more comes of it for now, though it counts as readable; to wait for it would be to spin.
        overruns: how often lines were lost.
    """

    def __init__(self, root: Root, clock: Callable[[], float] = time.monotonic) -> None:
        self._root = root
        self._clock = clock
        self.is_at_end = False
        self.overruns = 0
        self._handle: int | None = None
        self._plain = False
        self._torn = b""
        self._live = False
        self._last: _Said | None = None

    @property
    def handle(self) -> int | None:
        """What becomes readable when there is more; none if nothing tells, and somebody has to look."""
        return None if self._plain else self._handle

    def open(self) -> Absent | None:
        """Read from the oldest line on; why that cannot be, if it cannot. A tree without the file said nothing."""
        self.close()
        try:
            self._handle = _handed_over() if not self._root.prefix else None
            if self._handle is None:
                self._handle = os.open(self._root.prefix + KMSG, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            self._plain = stat.S_ISREG(os.fstat(self._handle).st_mode)
        except OSError as error:
            self._plain = bool(self._root.prefix) and error.errno == errno.ENOENT
            why = _MEANS.get(error.errno or 0, os.strerror(error.errno or errno.EIO))
            return None if self._plain else Absent(f"{KMSG} cannot be read: {why}", unreadable=True)
        return None

    def close(self) -> None:
        """Read no more."""
        if self._handle is not None:
            os.close(self._handle)
        self._handle, self._plain, self._torn, self._live, self._last = None, False, b"", False, None

    def read_records(self, limit: int) -> tuple[LogRecord, ...] | None:
        """The next lines of the kernel's among so many records; none if there is no record now."""
        if self._handle is None and self._plain:
            self.open()  # a file may have come
        if self._handle is None:
            return None
        self.is_at_end = False
        said = list(self._lines(limit) if self._plain else self._records(limit))
        self._live = self._live or not said
        if not said:
            return None
        return tuple(record for one in said if one is not None and (record := self._record(one)) is not None)

    def _record(self, said: _Said) -> LogRecord | None:
        """A line as it was heard: one that comes while we listen now, an earlier one when the kernel says it was."""
        before, self._last = self._last, said
        if before is not None and said.number > before.number + 1 and self._live:
            self.overruns += 1
            log.warning("the kernel log overran: %d lines are lost", said.number - before.number - 1)
        if not said.kernel:
            return None
        now = self._clock()
        if said.continues:
            if before is None or not before.kernel or said.number != before.number + 1:
                return None  # of a line of which the beginning is lost
            self._last = said = said._replace(text=before.text + said.text)
        return LogRecord(said.number, now if self._live else min(said.stamp, now), said.text, said.continues)

    def _records(self, limit: int) -> Iterator[_Said | None]:
        """The next records; none in the place of what is none, or lost."""
        for _ in range(limit):
            try:
                data = os.read(self._handle or 0, _ONE)
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in {errno.EPIPE, errno.EINVAL}:  # overrun, or too long: the next read goes on behind it
                    yield None
                    continue
                log.warning("the kernel log: %s", error)
                data = b""
            if not data:
                self.is_at_end = True
                return
            yield _said(data.partition(b"\n")[0])

    def _lines(self, limit: int) -> Iterator[_Said | None]:
        """The same of a plain file; what follows a record in lines of its own begins with a blank."""
        while limit:
            line, end, rest = self._torn.partition(b"\n")
            if not end:
                more = os.read(self._handle or 0, _ONE)
                if not more:
                    return
                self._torn = self._torn[:_ONE] + more  # of a line without end the beginning is enough
                continue
            self._torn = rest
            limit -= 1
            yield _said(line)


def _handed_over() -> int | None:
    """The log as whoever started us opened it for us, at its oldest line; none if it did not."""
    try:
        about = os.fstat(STDIN)
        if not stat.S_ISCHR(about.st_mode) or about.st_rdev != _DEVICE:
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


def _said(line: bytes) -> _Said | None:
    """A record from its first line; none if that is none."""
    found = _RECORD.fullmatch(line)
    if found is None:
        return None
    text = found[5].decode("utf-8", "replace")
    flags = found[4].partition(b",")[0]
    return _Said(int(found[2]), int(found[3]) / 1e6, text, int(found[1]) >> 3 == 0, flags in {b"c", b"+"})
