"""The open ListAndWatch streams of one endpoint."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager


class Streams:
    """Counts and ends the streams, and waits for them."""

    def __init__(self) -> None:
        self._calls: set[asyncio.Task[object]] = set()
        self._stream_open = asyncio.Event()
        self._all_closed = asyncio.Event()
        self._all_closed.set()
        self._stream_seen = asyncio.Event()
        self.is_ending = False

    def __len__(self) -> int:
        return len(self._calls)

    @contextmanager
    def track_stream(self) -> Iterator[None]:
        """Count the present task as a stream for the duration of the context.

        If `end` cancelled the task, the cancellation stops here. The caller returns, so the kubelet sees END_STREAM. If
        the peer cancelled the task or is gone, the cancellation continues, as grpclib expects.
        """
        task = asyncio.current_task()
        assert task is not None  # noqa: S101  a coroutine runs in a task
        self._calls.add(task)
        self._stream_seen.set()
        self._stream_open.set()
        self._all_closed.clear()
        try:
            yield
        except asyncio.CancelledError:
            if not self.is_ending:
                raise
            task.uncancel()
        finally:
            self._calls.discard(task)
            if not self._calls:
                self._stream_open.clear()
                self._all_closed.set()

    async def wait_for_stream(self) -> None:
        """Return when a stream is open."""
        await self._stream_open.wait()

    async def wait_for_end(self, grace: float) -> None:
        """Return after a stream was open, and no stream has been open for `grace` seconds.

        A second stream can stay open or follow at once. Then the end is not reached.
        """
        await self._stream_seen.wait()
        while True:
            await self._all_closed.wait()
            try:
                async with asyncio.timeout(grace):
                    await self._stream_open.wait()
            except TimeoutError:
                return

    def end(self) -> None:
        """End the handlers of all streams. Streams that open later end at once."""
        self.is_ending = True
        for task in self._calls:
            task.cancel()
