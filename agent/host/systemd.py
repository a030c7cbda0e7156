"""What systemd is told (sd_notify(3)): one datagram to $NOTIFY_SOCKET; nothing where that is not set."""

from __future__ import annotations

import os
import socket


def notify(**fields: str | int) -> None:
    """Send fields such as `READY=1`, `STATUS=…`, `WATCHDOG=1`. Never raises: what systemd misses costs nobody else."""
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
    """How often systemd wants a sign of life, if it wants one of this process."""
    pid = os.environ.get("WATCHDOG_PID")
    microseconds = os.environ.get("WATCHDOG_USEC", "")
    if not microseconds.isdecimal() or (pid is not None and pid != str(os.getpid())):
        return None
    return int(microseconds) / 1_000_000
