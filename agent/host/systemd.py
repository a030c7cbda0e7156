"""Messages to systemd (sd_notify(3)): one datagram to $NOTIFY_SOCKET, and nothing if that is not set."""

from __future__ import annotations

import os
import socket


def notify(**fields: str | int) -> None:
    """Send fields such as `READY=1`, `STATUS=…`, `WATCHDOG=1`.

    Errors are ignored: a lost message harms only systemd.
    """
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")):
        return
    message = "\n".join(f"{name}={value}" for name, value in fields.items())
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as out:
            out.sendto(message.encode(), f"\0{address[1:]}" if address.startswith("@") else address)
    except OSError:
        return


def read_watchdog_seconds() -> float | None:
    """Return the watchdog period of systemd in seconds, or None if this process has none."""
    pid = os.environ.get("WATCHDOG_PID")
    microseconds = os.environ.get("WATCHDOG_USEC", "")
    if not microseconds.isdecimal() or (pid is not None and pid != str(os.getpid())):
        return None
    return int(microseconds) / 1_000_000
