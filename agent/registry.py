"""The registry: the newest snapshot of each resource, and the streams that want it.

A stream remembers what it last sent and is woken when there is something newer; it never sees a history, so a slow or
dead one costs nobody anything. Everything here happens in one event loop; no call but the two coroutines waits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from agent.core.device import Snapshot


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
        return self._board.snapshot == self._sent


class _Board:
    """One resource: its newest snapshot and who follows it. Each event is replaced when it is set."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.followers: set[Follower] = set()
        self.changed = asyncio.Event()
        self.progress = asyncio.Event()


class Registry:
    """The newest snapshots by resource name."""

    def __init__(self) -> None:
        self._boards: dict[str, _Board] = {}

    def publish(self, snapshot: Snapshot) -> bool:
        """Make a snapshot the newest of its resource and wake the streams; False if it equals the present one."""
        board = self._board(snapshot.resource)
        if board.snapshot == snapshot:
            return False
        board.snapshot = snapshot
        board.changed.set()
        board.changed = asyncio.Event()
        return True

    def current(self, resource: str) -> Snapshot:
        """The newest snapshot of a resource; empty before the first."""
        return self._board(resource).snapshot

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

    def streams(self, resource: str) -> int:
        """How many streams of the resource are open."""
        return len(self._board(resource).followers)

    async def delivered(self, resources: Iterable[str]) -> None:
        """Return when every open stream of these resources has sent its newest snapshot."""
        for resource in resources:
            board = self._board(resource)
            while any(not follower.up_to_date for follower in board.followers):
                board.progress.clear()
                await board.progress.wait()

    def forget(self, resource: str) -> None:
        """Drop a resource that is served no more."""
        self._boards.pop(resource, None)

    def _board(self, resource: str) -> _Board:
        board = self._boards.get(resource)
        if board is None:
            board = self._boards[resource] = _Board(Snapshot(resource))
        return board
