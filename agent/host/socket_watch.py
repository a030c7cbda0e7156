"""A socket file, such as the kubelet's: its current identity, and waiting for another one.

The file itself proves nothing, because a stopped kubelet leaves it behind. Its identity (device, inode, change time)
distinguishes one run of the kubelet from the next.
"""

from __future__ import annotations

import asyncio
import os
import stat
from types import TracebackType
from typing import Self

from agent.core.struct import Struct
from agent.host.inotify import PathWatch
from agent.host.root import Root

POLL_SECONDS = 1.0


class SocketIdentity(Struct):
    """Values that differ between the sockets of two runs."""

    device: int
    inode: int
    changed_ns: int


class SocketWatch:
    """The current identity of one socket. inotify and `check` keep it up to date."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.identity = identify(path)
        self._changed = asyncio.Event()

    def check(self) -> None:
        """Read the identity now. Wake the waiting tasks if it differs."""
        identity = identify(self.path)
        if identity != self.identity:
            self.identity = identity
            self._wake()

    def refresh(self) -> None:
        """Read the identity after an event in the directory, and wake all waiting tasks."""
        self.identity = identify(self.path)
        self._wake()

    async def wait_for_socket(self) -> SocketIdentity:
        """Return the identity of the socket as soon as one exists."""
        while self.identity is None:
            await self._changed.wait()
        return self.identity

    async def wait_for_other(self, identity: SocketIdentity) -> None:
        """Return when a socket with another identity exists. An absent socket is not enough."""
        while self.identity in (None, identity):
            await self._changed.wait()

    async def wait_for_event(self) -> None:
        """Return at the next event in the directory, whatever it is."""
        await self._changed.wait()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


class SocketWatches:
    """Several sockets, watched by one inotify instance. Their directories need not exist.

    If a directory cannot be watched, its socket is checked every `POLL_SECONDS`.
    """

    def __init__(self, *paths: str) -> None:
        self.watches = tuple(SocketWatch(path) for path in paths)
        self._directories = frozenset(os.path.dirname(path) for path in paths)
        self._watch = PathWatch(Root(), self._handle_change)
        self._failing = asyncio.Event()

    async def __aenter__(self) -> Self:
        await self._watch.__aenter__()
        self._check_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._watch.__aexit__(kind, error, trace)

    async def run(self, seconds: float) -> None:
        """Check the sockets every `seconds`, in case inotify missed an event, until cancelled."""
        while True:
            try:
                async with asyncio.timeout(seconds):
                    await self._failing.wait()
            except TimeoutError:
                pass
            else:
                await asyncio.sleep(min(POLL_SECONDS, seconds))
            self._check_all()

    def _check_all(self) -> None:
        self._watch.watch(self._directories)
        for watch in self.watches:
            if os.path.dirname(watch.path) in self._watch.faults:
                watch.refresh()
            else:
                watch.check()
        self._update_fault_event()

    def _handle_change(self, paths: frozenset[str], overflow: bool) -> None:  # noqa: FBT001  the signature of `PathWatch`
        dirty_set = paths | {os.path.dirname(path) for path in paths}
        for watch in self.watches:
            if overflow or os.path.dirname(watch.path) in dirty_set:
                watch.refresh()
        self._update_fault_event()

    def _update_fault_event(self) -> None:
        if self._watch.faults:
            self._failing.set()
        else:
            self._failing.clear()


def identify(path: str) -> SocketIdentity | None:
    """Return the identity of the socket at a path, or None if no socket is there."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return SocketIdentity(status.st_dev, status.st_ino, status.st_ctime_ns) if stat.S_ISSOCK(status.st_mode) else None
