"""The registry: the newest snapshot of each resource, and the streams that want it.

A stream remembers what it last sent and is woken when there is something newer; it never sees a history, so a slow or
dead one costs nobody anything. Everything here happens in one event loop; no call but the two coroutines waits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from agent.core.inventory.device import Snapshot


class Follower:
    """One open stream of one resource."""

    def __init__(self, board: _Board) -> None:
        self._board = board
        self._sent: Snapshot | None = None

    async def next(self) -> Snapshot:
        """The newest snapshot, as soon as it differs from the one last marked as sent."""
        while self.up_to_date:
            await self._board.changed.wait()
        return self._board.snapshot

    def sent(self, snapshot: Snapshot) -> None:
        """Mark a snapshot as sent."""
        self._sent = snapshot
        self._board.progress.set()

    @property
    def up_to_date(self) -> bool:
        """Whether what was sent last equals the newest snapshot."""
        newest = self._board.snapshot
        return newest is self._sent or newest == self._sent


class _Board:
    """One resource: its newest snapshot and who follows it.

    changed: set, and replaced by another, at each new snapshot: whoever waits wakes once.
    progress: set when a stream has sent something or ended; cleared by whoever waits for that, before it waits.
    forgotten: dropped as soon as nobody follows.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.followers: set[Follower] = set()
        self.forgotten = False
        self.changed = asyncio.Event()
        self.progress = asyncio.Event()


class Registry:
    """The newest snapshots by resource name."""

    def __init__(self) -> None:
        self._boards: dict[str, _Board] = {}

    def publish(self, snapshot: Snapshot) -> bool:
        """Make a snapshot the newest of its resource and wake the streams; False if it equals the present one."""
        board = self._board(snapshot.resource)
        board.forgotten = False
        if board.snapshot == snapshot:
            return False
        board.snapshot = snapshot
        board.changed.set()
        board.changed = asyncio.Event()
        return True

    def current(self, resource: str) -> Snapshot:
        """The newest snapshot of a resource; empty before the first."""
        board = self._boards.get(resource)
        return board.snapshot if board else Snapshot(resource)

    @contextmanager
    def follow(self, resource: str) -> Iterator[Follower]:
        """A stream of the resource, for as long as it is open."""
        board = self._board(resource)
        follower = Follower(board)
        board.followers.add(follower)
        try:
            yield follower
        finally:
            board.followers.discard(follower)
            board.progress.set()
            self._drop_if_forgotten(resource, board)

    def streams(self, resource: str) -> int:
        """How many streams of the resource are open."""
        board = self._boards.get(resource)
        return len(board.followers) if board else 0

    async def delivered(self, resources: Iterable[str]) -> None:
        """Return when every open stream of these resources has sent its newest snapshot, or ended."""
        for board in [self._boards[name] for name in resources if name in self._boards]:
            while any(not follower.up_to_date for follower in board.followers):
                board.progress.clear()
                await board.progress.wait()

    def forget(self, resource: str) -> None:
        """Drop a resource that is served no more. A stream that is still open is told an empty list."""
        board = self._boards.get(resource)
        if board is not None:
            self.publish(Snapshot(resource))
            board.forgotten = True
            self._drop_if_forgotten(resource, board)

    def _drop_if_forgotten(self, resource: str, board: _Board) -> None:
        if board.forgotten and not board.followers:
            del self._boards[resource]

    def _board(self, resource: str) -> _Board:
        board = self._boards.get(resource)
        if board is None:
            board = self._boards[resource] = _Board(Snapshot(resource))
        return board
