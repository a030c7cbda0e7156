"""Log lines for the journal in its own protocol (systemd.io/JOURNAL_NATIVE_PROTOCOL): message, priority and fields."""

from __future__ import annotations

import logging
import os
import select
import socket
from collections.abc import Mapping

from agent.core.message_id import NOTICE

SOCKET = "/run/systemd/journal/socket"
NAME = "device-agent"
PRIORITIES = {
    logging.DEBUG: 7,
    logging.INFO: 6,
    NOTICE: 5,
    logging.WARNING: 4,
    logging.ERROR: 3,
    logging.CRITICAL: 2,
}  # syslog(3)


def is_journal(environ: Mapping[str, str], stream: int) -> bool:
    """Return whether a stream leads to the journal. JOURNAL_STREAM has its device and inode (systemd.exec(5))."""
    try:
        status = os.fstat(stream)
    except OSError:
        return False
    return environ.get("JOURNAL_STREAM") == f"{status.st_dev}:{status.st_ino}"


class PriorityFormatter(logging.Formatter):
    """Formatter that puts `<N>` before each line, as sd-daemon(3) requires."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the lines of the record."""
        mark = f"<{PRIORITIES.get(record.levelno, 6)}>"
        return "\n".join(mark + line for line in super().format(record).splitlines())


class JournalHandler(logging.Handler):
    """Handler that sends one datagram for each record. It never waits.

    The fallback handler writes what the journal does not accept. If the fallback has no room either, because the
    journal hangs, lines are lost and their number is logged.
    """

    def __init__(self, fallback: logging.Handler, path: str = SOCKET, stream: int = 2) -> None:
        """Create the handler. `path` is the socket of the journal. `fallback` writes to `stream`."""
        super().__init__()
        self._fallback = fallback
        self._path = path
        self._stream = stream
        self._lost_count = 0
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)

    def emit(self, record: logging.LogRecord) -> None:
        """Send one record."""
        try:
            if self._lost_count and self._send(_make_lost_record(self._lost_count)):
                self._lost_count = 0
            if not self._send(record):
                self._lost_count += 1
        except Exception:  # noqa: BLE001  as in every handler: a failed write must not end the program
            self.handleError(record)

    def _send(self, record: logging.LogRecord) -> bool:
        try:
            self._socket.sendto(build_datagram(self.format(record), record), self._path)
        except OSError:  # no journal, a full socket, or a record that is too long
            if not select.select((), (self._stream,), (), 0)[1]:
                return False
            self._fallback.handle(record)
        return True

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()
        super().close()


def _make_lost_record(number: int) -> logging.LogRecord:
    attributes = {"levelno": logging.WARNING, "levelname": "WARNING", "msg": "%d log lines are lost", "args": (number,)}
    return logging.makeLogRecord(attributes)


def build_datagram(message: str, record: logging.LogRecord) -> bytes:
    """Return a record in the protocol of the journal."""
    priority = str(PRIORITIES.get(record.levelno, 6))
    fields = {"MESSAGE": message, "PRIORITY": priority, "SYSLOG_IDENTIFIER": NAME, **getattr(record, "fields", {})}
    return b"".join(_encode_field(name, value.encode("utf-8", "backslashreplace")) for name, value in fields.items())


def _encode_field(name: str, value: bytes) -> bytes:
    """Return `NAME=value`. A value with several lines has its length before it."""
    if b"\n" not in value:
        return b"%s=%s\n" % (name.encode(), value)
    return b"%s\n%s%s\n" % (name.encode(), len(value).to_bytes(8, "little"), value)
