"""The registry: the newest snapshot of each resource, and the streams that want it.

A stream remembers what it last sent and is woken when there is something newer; it never sees a history, so a slow or
dead one costs nobody anything. Everything here happens in one event loop; no call but the two coroutines waits.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from agent.core.inventory.device import DeviceList
from agent.counters import Counters


class Follower:
    """One open stream of one resource."""

    def __init__(self, board: _ResourceBoard) -> None:
        self._board = board
        self._sent_list: DeviceList | None = None

    async def wait_for_list(self) -> DeviceList:
        """The newest snapshot, as soon as it differs from the one last marked as sent."""
        while self.is_up_to_date:
            await self._board.list_changed.wait()
        return self._board.device_list

    def mark_sent(self, device_list: DeviceList, size: int | None = None) -> None:
        """Mark a snapshot as sent, in so many bytes; None if the kubelet knew already what it says."""
        self._sent_list = device_list
        self._board.record_sent(size)

    @property
    def is_up_to_date(self) -> bool:
        """Whether what was sent last equals the newest snapshot."""
        newest_list = self._board.device_list
        return newest_list is self._sent_list or newest_list == self._sent_list


class _ResourceBoard:
    """One resource: its newest snapshot and who follows it.

    changed: set, and replaced by another, at each new snapshot: whoever waits wakes once.
    progress: set when a stream has sent something or ended; cleared by whoever waits for that, before it waits.
    forgotten: dropped as soon as nobody follows.
    since: when what the newest snapshot says began to be, if some stream is still to send it.
    """

    def __init__(self, device_list: DeviceList, counters: Counters) -> None:
        self.device_list = device_list
        self.changed_at: float | None = None
        self._counters = counters
        self.followers: set[Follower] = set()
        self.is_forgotten = False
        self.list_changed = asyncio.Event()
        self.progress = asyncio.Event()

    def record_sent(self, size: int | None) -> None:
        """A stream has the newest snapshot."""
        self.progress.set()
        if size is not None:
            self._counters.record_list(self.device_list.resource, size)
        if self.changed_at is not None and all(follower.is_up_to_date for follower in self.followers):
            self._counters.change_times.observe(time.monotonic() - self.changed_at)
            self.changed_at = None


class Registry:
    """The newest snapshots by resource name.

    counts: told what was sent, and how long that took.
    """

    def __init__(self, counters: Counters | None = None) -> None:
        self._counters = counters or Counters()
        self._boards: dict[str, _ResourceBoard] = {}

    def publish(self, device_list: DeviceList, changed_at: float | None = None) -> bool:
        """Make a snapshot the newest of its resource and wake the streams; False if it equals the present one.

        since: when (monotonic) what it says began to be, as far as is known.
        """
        board = self._get_board(device_list.resource)
        board.is_forgotten = False
        if board.device_list == device_list:
            return False
        board.device_list = device_list
        board.changed_at = board.changed_at or changed_at if board.followers else None
        board.list_changed.set()
        board.list_changed = asyncio.Event()
        return True

    def get_list(self, resource: str) -> DeviceList:
        """The newest snapshot of a resource; empty before the first."""
        board = self._boards.get(resource)
        return board.device_list if board else DeviceList(resource)

    @contextmanager
    def follow(self, resource: str) -> Iterator[Follower]:
        """A stream of the resource, for as long as it is open."""
        board = self._get_board(resource)
        follower = Follower(board)
        board.followers.add(follower)
        try:
            yield follower
        finally:
            board.followers.discard(follower)
            if not board.followers:
                board.changed_at = None  # how long the kubelet stays away is no time of ours
            board.progress.set()
            self._drop_if_forgotten(resource, board)

    def count_streams(self, resource: str) -> int:
        """How many streams of the resource are open."""
        board = self._boards.get(resource)
        return len(board.followers) if board else 0

    def is_delivered(self, resource: str) -> bool:
        """Whether there is a stream of the resource, and each has sent the newest snapshot."""
        board = self._boards.get(resource)
        return (
            board is not None and bool(board.followers) and all(follower.is_up_to_date for follower in board.followers)
        )

    async def wait_until_delivered(self, resources: Iterable[str]) -> None:
        """Return when every open stream of these resources has sent its newest snapshot, or ended."""
        for board in [self._boards[name] for name in resources if name in self._boards]:
            while any(not follower.is_up_to_date for follower in board.followers):
                board.progress.clear()
                await board.progress.wait()

    def forget(self, resource: str) -> None:
        """Drop a resource that is served no more. A stream that is still open is told an empty list."""
        board = self._boards.get(resource)
        if board is not None:
            self.publish(DeviceList(resource))
            board.is_forgotten = True
            self._drop_if_forgotten(resource, board)

    def _drop_if_forgotten(self, resource: str, board: _ResourceBoard) -> None:
        if board.is_forgotten and not board.followers:
            del self._boards[resource]

    def _get_board(self, resource: str) -> _ResourceBoard:
        board = self._boards.get(resource)
        if board is None:
            board = self._boards[resource] = _ResourceBoard(DeviceList(resource), self._counters)
        return board
