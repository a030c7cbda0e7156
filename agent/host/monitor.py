"""Kernel events of devices, by libudev. The one file that imports pyudev, and only once it is wanted.

An event says no more than where to look (`Touched`); when the socket overran, everything may have changed.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from agent.core.touched import EVERYTHING, Touched
from agent.core.value import Absent
from agent.host.udev import CONTROL

if TYPE_CHECKING:
    import pyudev

EVENTS = 64  # taken in one go, before others on the event loop have their turn
_DRAINED = 100_000  # messages thrown away in one go after an overrun; what is left comes as events

log = logging.getLogger(__name__)


def group() -> str:
    """Whom to listen to: udev, which tells of a device when its rules are done, or the kernel where none runs."""
    return "udev" if os.path.exists(CONTROL) else "kernel"


@asynccontextmanager
async def uevents(changed: Callable[[Touched], None]) -> AsyncIterator[str | Absent]:
    """Call `changed` for every event, from the event loop, until left; gives the group, or why it cannot listen.

    Without libudev or netlink the caller goes on with inotify and the sweep. When udevd comes or goes (`CONTROL`),
    open another before this one is left, so that nothing is missed.
    """
    source = group()
    try:
        import pyudev

        monitor = pyudev.Monitor.from_netlink(pyudev.Context(), source)
        monitor.start()
    except (ImportError, OSError) as error:
        yield Absent(f"no kernel events: {error}")
        return
    listener = _Listener(monitor, changed)
    try:
        yield source
    finally:
        listener.close()


class _Listener:
    """A started monitor on the event loop. Both loops call again at once while events are left (level-triggered)."""

    def __init__(self, monitor: pyudev.Monitor, changed: Callable[[Touched], None]) -> None:
        self._monitor = monitor
        self._changed = changed
        self._loop = asyncio.get_running_loop()
        self._descriptor: int = monitor.fileno()
        self._socket = socket.socket(fileno=os.dup(self._descriptor))
        self._loop.add_reader(self._descriptor, self._readable)

    def close(self) -> None:
        """Stop listening."""
        self._loop.remove_reader(self._descriptor)
        self._socket.close()

    def _readable(self) -> None:
        touched = Touched()
        try:
            for _ in range(EVENTS):
                device = self._monitor.poll(timeout=0)
                if device is None:
                    break
                touched |= touched_by(device)
        except OSError:
            self._overrun()
            touched = EVERYTHING
        if touched:
            self._changed(touched)

    def _overrun(self) -> None:
        """Make the socket usable again after it lost messages (ENOBUFS, netlink(7)).

        Until SO_ERROR is read, poll(2) reports the error for ever: the stock loop spins on it, and uvloop has
        dropped the reader. What is still queued is of no use, as everything is looked at anyway.
        """
        log.warning("events of the kernel were lost; looking at everything")
        self._loop.remove_reader(self._descriptor)
        self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        for _ in range(_DRAINED):
            try:
                self._socket.recv(1, socket.MSG_DONTWAIT)
            except OSError as error:
                if error.errno != errno.ENOBUFS:
                    break
        self._loop.add_reader(self._descriptor, self._readable)


def touched_by(device: pyudev.Device) -> Touched:
    """What an event says to look at. All of it is in the message; nothing is read from the device."""
    paths = {f"/sys{device.device_path}"}
    if old := device.properties.get("DEVPATH_OLD"):  # of `move`: what the device was called before
        paths.add(f"/sys{old}")
    if device.device_node:
        paths.add(device.device_node)
    return Touched(frozenset(paths), frozenset({device.subsystem} if device.subsystem else ()))
