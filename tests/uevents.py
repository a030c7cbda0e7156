"""Kernel events of this machine, for tests that cause them."""

import os
import socket

import pytest

from agent.host import uevents

NULL = "/sys/devices/virtual/mem/null/uevent"

needs_events = pytest.mark.skipif(
    os.geteuid() != 0 or not os.access(NULL, os.W_OK), reason="needs root to make the kernel send events"
)


def overrun(monkeypatch):
    """Whoever listens from now on has room for a few events only; the kernel drops what comes beyond."""

    class Small(uevents._Listener):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)

    monkeypatch.setattr(uevents, "_Listener", Small)
