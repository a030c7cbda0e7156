"""The registry: the current list of each resource, and the streams that send it.

A stream knows the list that it sent last, and wakes when there is a newer one. There is no queue, so a slow or dead
stream costs nothing. All calls run in one event loop. Only the two coroutines wait.
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
        """Return the current list, as soon as it differs from the sent list."""
        while self.is_up_to_date:
            await self._board.list_changed.wait()
        return self._board.device_list

    def mark_sent(self, device_list: DeviceList, size: int | None = None) -> None:
        """Mark a list as sent.

        size: the bytes of the message, or None if the kubelet already had the same content.
        """
        self._sent_list = device_list
        self._board.record_sent(size)

    @property
    def is_up_to_date(self) -> bool:
        """Return whether the sent list equals the current list."""
        newest_list = self._board.device_list
        return newest_list is self._sent_list or newest_list == self._sent_list


class _ResourceBoard:
    """The current list of one resource and its followers.

    list_changed: set and replaced at each new list, so each waiter wakes once. progress: set when a stream sent a list
    or ended. The waiter clears it before it waits. is_forgotten: the board is dropped when the last follower ends.
    changed_at: when the content of the current list began, in monotonic seconds. None if every stream has sent it.
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
        """Count a sent list, and its delay after the last stream sent it."""
        self.progress.set()
        if size is not None:
            self._counters.record_list(self.device_list.resource, size)
        if self.changed_at is not None and all(follower.is_up_to_date for follower in self.followers):
            self._counters.change_times.observe(time.monotonic() - self.changed_at)
            self.changed_at = None


class Registry:
    """The current lists by resource name.

    counters: counts the sent lists and their delay.
    """

    def __init__(self, counters: Counters | None = None) -> None:
        self._counters = counters or Counters()
        self._boards: dict[str, _ResourceBoard] = {}

    def publish(self, device_list: DeviceList, changed_at: float | None = None) -> bool:
        """Make a list the current one of its resource and wake the streams. Return False if the list is equal.

        changed_at: when the content of the list began, in monotonic seconds, if known.
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
        """Return the current list of a resource, or an empty list before the first one."""
        board = self._boards.get(resource)
        return board.device_list if board else DeviceList(resource)

    @contextmanager
    def follow(self, resource: str) -> Iterator[Follower]:
        """Open a stream of the resource for the duration of the context."""
        board = self._get_board(resource)
        follower = Follower(board)
        board.followers.add(follower)
        try:
            yield follower
        finally:
            board.followers.discard(follower)
            if not board.followers:
                board.changed_at = None  # the absence of the kubelet is not a delay of the agent
            board.progress.set()
            self._drop_if_forgotten(resource, board)

    def count_streams(self, resource: str) -> int:
        """Return the number of open streams of the resource."""
        board = self._boards.get(resource)
        return len(board.followers) if board else 0

    def is_delivered(self, resource: str) -> bool:
        """Return whether the resource has a stream, and each stream has sent the current list."""
        board = self._boards.get(resource)
        return (
            board is not None and bool(board.followers) and all(follower.is_up_to_date for follower in board.followers)
        )

    async def wait_until_delivered(self, resources: Iterable[str]) -> None:
        """Return when every open stream of these resources has sent its current list, or ended."""
        for board in [self._boards[name] for name in resources if name in self._boards]:
            while any(not follower.is_up_to_date for follower in board.followers):
                board.progress.clear()
                await board.progress.wait()

    def forget(self, resource: str) -> None:
        """Drop a resource that is no longer served. An open stream first sends an empty list."""
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
