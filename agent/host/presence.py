"""A socket in the file system, such as the kubelet's: which one is there now, and waiting until there is another.

The file proves nothing by itself (a stopped kubelet leaves it behind, kubelet-contract §2.5); its *identity* (device,
inode, change time) tells one kubelet's life from the next.
"""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple

from agent.host.inotify import PathWatch
from agent.host.root import Root


class Identity(NamedTuple):
    """What differs between the sockets of two lives."""

    device: int
    inode: int
    changed_ns: int


class Presence:
    """The present identity of one socket, kept up to date by inotify and by `check`."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.identity = identify(path)
        self._changed = asyncio.Event()

    def check(self) -> None:
        """Look at the file now; wakes who waits if it is another."""
        identity = identify(self.path)
        if identity != self.identity:
            self.identity = identity
            self._wake()

    def stir(self) -> None:
        """Something happened in the directory: look at the file, and wake all who wait."""
        self.identity = identify(self.path)
        self._wake()

    async def there(self) -> Identity:
        """The identity of the socket, as soon as there is one."""
        while self.identity is None:
            await self._changed.wait()
        return self.identity

    async def other_than(self, identity: Identity) -> None:
        """Return when the socket that is there is another one; its mere absence is not enough."""
        while self.identity in (None, identity):
            await self._changed.wait()

    async def stirred(self) -> None:
        """Return at the next event in the directory, whatever it is."""
        await self._changed.wait()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


@asynccontextmanager
async def watch(path: str) -> AsyncIterator[Presence]:
    """Follow one socket, whether its directory is there already or not."""
    presence = Presence(path)

    def changed(_paths: frozenset[str], _overflow: bool) -> None:  # noqa: FBT001  the watch's signature
        presence.stir()

    async with PathWatch(Root(), changed) as directory:
        directory.watch({os.path.dirname(path)})
        presence.check()
        yield presence


def identify(path: str) -> Identity | None:
    """The identity of the socket at a path; None if there is none, or something else."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return Identity(found.st_dev, found.st_ino, found.st_ctime_ns) if stat.S_ISSOCK(found.st_mode) else None
