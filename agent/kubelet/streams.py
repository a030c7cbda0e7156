"""The open ListAndWatch streams of one endpoint."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager


class Streams:
    """Counts them, lets others wait for them, ends them."""

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
        """The stream that the present task serves, for as long as it does.

        When it was `end` that cancelled the task, the cancellation stops here, and the caller's return ends the
        stream in good order: the kubelet sees END_STREAM. When the peer cancelled it,
        or is gone, the cancellation goes on, as grpclib expects.
        """
        task = asyncio.current_task()
        assert task is not None  # noqa: S101  a coroutine runs in one
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
        """Return when a stream is open; at once if one is."""
        await self._stream_open.wait()

    async def wait_for_end(self, grace: float) -> None:
        """Return when at least one stream was open and none has been for `grace` seconds.

        A second one may live on or follow at once: then it is not the end.
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
        """Make every stream's handler return; for good: streams that open later end at once."""
        self.is_ending = True
        for task in self._calls:
            task.cancel()
