"""Kernel events of devices, by libudev. The one file that imports pyudev, and only once it is wanted.

An event says no more than where to look (`Touched`); when the socket overran, everything may have changed.
"""

from __future__ import annotations

import os
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from agent.core.inventory.dirty_set import DirtySet
from agent.core.language.value import Absent
from agent.host.netlink import NetlinkListener
from agent.host.udev import CONTROL

if TYPE_CHECKING:
    import pyudev


def choose_group() -> str:
    """Whom to listen to: udev, which tells of a device when its rules are done, or the kernel where none runs."""
    return "udev" if os.path.exists(CONTROL) else "kernel"


@asynccontextmanager
async def watch_uevents(changed: Callable[[DirtySet], None]) -> AsyncIterator[str | Absent]:
    """Call `changed` for every event, from the event loop, until left; gives the group, or why it cannot listen.

    Without libudev or netlink the caller goes on with inotify and the sweep. When udevd comes or goes (`CONTROL`),
    open another before this one is left, so that nothing is missed.
    """
    source = choose_group()
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


class _Listener(NetlinkListener):
    """A started monitor, whose socket is its own and stays with it."""

    event_kind = "the kernel"

    def __init__(self, monitor: pyudev.Monitor, changed: Callable[[DirtySet], None]) -> None:
        self._monitor = monitor
        super().__init__(socket.socket(fileno=os.dup(monitor.fileno())), changed)

    def read_event(self) -> DirtySet | None:
        """See `Listener.take`."""
        device = self._monitor.poll(timeout=0)
        return None if device is None else make_dirty_set(device)


def make_dirty_set(device: pyudev.Device) -> DirtySet:
    """What an event says to look at. All of it is in the message; nothing is read from the device."""
    paths = {f"/sys{device.device_path}"}
    if old := device.properties.get("DEVPATH_OLD"):  # of `move`: what the device was called before
        paths.add(f"/sys{old}")
    if device.device_node:
        paths.add(device.device_node)
    return DirtySet(frozenset(paths), frozenset({device.subsystem} if device.subsystem else ()))
