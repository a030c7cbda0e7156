"""Kernel events of devices, by libudev. Only this module imports pyudev, and only when it is needed.

An event only marks what must be read again (`DirtySet`). When the socket overran, everything may have changed.
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
    """Return the sender of events: udev, which sends after its rules are applied, or the kernel if no udevd runs."""
    return "udev" if os.path.exists(CONTROL) else "kernel"


@asynccontextmanager
async def watch_uevents(changed: Callable[[DirtySet], None]) -> AsyncIterator[str | Absent]:
    """Call `changed` for every event, from the event loop, until the context ends. Yield the group, or the reason for
    none.

    Without libudev or netlink the caller uses inotify and the full rescan. When udevd starts or stops (`CONTROL`), open
    another watch before this one is closed, so that no event is missed.
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
    """The listener of a started monitor. It has a socket of its own."""

    event_kind = "the kernel"

    def __init__(self, monitor: pyudev.Monitor, changed: Callable[[DirtySet], None]) -> None:
        self._monitor = monitor
        super().__init__(socket.socket(fileno=os.dup(monitor.fileno())), changed)

    def read_event(self) -> DirtySet | None:
        """See `NetlinkListener.read_event`."""
        device = self._monitor.poll(timeout=0)
        return None if device is None else make_dirty_set(device)


def make_dirty_set(device: pyudev.Device) -> DirtySet:
    """Return what an event marks as dirty. Everything is in the message. Nothing is read from the device."""
    paths = {f"/sys{device.device_path}"}
    if old := device.properties.get("DEVPATH_OLD"):  # of a `move` event: the previous path
        paths.add(f"/sys{old}")
    if device.device_node:
        paths.add(device.device_node)
    return DirtySet(frozenset(paths), frozenset({device.subsystem} if device.subsystem else ()))
