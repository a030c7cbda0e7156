"""Device-information files of what pods hold: there before the kubelet has its answer, gone when nobody holds it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from agent.core.entry.devinfo import DevInfo
from agent.core.language.safe_text import escape
from agent.host.daemon_thread import start_in_thread
from agent.host.devinfo_directory import DevInfoDirectory

T = TypeVar("T")

log = logging.getLogger(__name__)


class DevInfoFiles:
    """One at a time, files are written or removed, so that none is removed that a new holder was given.

    Args:
        directory: where they are.
        held: the ids that pods may hold; in doubt, all that are listed.
        changed: called when `any` may be another.

    Attributes:
        any: whether some of our files are there. True until it has been looked.
    """

    def __init__(
        self, directory: DevInfoDirectory, get_held_ids: Callable[[], frozenset[str]], on_change: Callable[[], None]
    ) -> None:
        self.has_files = True
        self._directory = directory
        self._get_held_ids = get_held_ids
        self._on_change = on_change
        self._lock = asyncio.Lock()
        self._cleanup_needed = asyncio.Event()
        self._cleanup_needed.set()
        self._faults: list[str] = []

    async def write(self, infos: Sequence[DevInfo]) -> None:
        """Have these files there; their ids are held already.

        Raises:
            DevInfoError: that cannot be done.
        """
        await self._run_exclusively(lambda: self._start_write(infos))

    def request_cleanup(self) -> None:
        """Say that pods may hold less than before."""
        self._cleanup_needed.set()

    async def run(self) -> None:
        """Remove the files of what nobody holds, until cancelled."""
        while True:
            await self._cleanup_needed.wait()
            self._cleanup_needed.clear()
            if not self.has_files:
                continue
            _, faults = await self._run_exclusively(self._start_cleanup)
            if faults and faults != self._faults:
                log.warning("devinfo: files of what nobody holds cannot be removed: %s", escape("; ".join(faults)))
            self._faults = faults
            self._on_change()

    def _start_write(self, infos: Sequence[DevInfo]) -> asyncio.Future[None]:
        """Begin to write; perhaps that ends when nobody waits for it any more."""
        if not self.has_files:
            self.has_files = True
            self._on_change()
        return start_in_thread(self._directory.write, infos)

    def _start_cleanup(self) -> asyncio.Future[tuple[bool, list[str]]]:
        """Begin to remove; what is left is known before anything else begins that may leave more."""
        cleanup = start_in_thread(self._directory.remove_unused, self._get_held_ids().__contains__)
        cleanup.add_done_callback(self._finish_cleanup)
        return cleanup

    def _finish_cleanup(self, cleanup: asyncio.Future[tuple[bool, list[str]]]) -> None:
        if not cleanup.exception():
            self.has_files, _ = cleanup.result()

    async def _run_exclusively(self, call: Callable[[], asyncio.Future[T]]) -> T:
        """What a call in a thread returns or raises; no other begins before it is done, even if nobody waits for it."""
        await self._lock.acquire()
        try:
            future = call()
        except BaseException:  # no thread to be had: the next one may find one
            self._lock.release()
            raise
        future.add_done_callback(self._finish_call)
        await asyncio.wait((future,))
        return future.result()

    def _finish_call(self, future: asyncio.Future[Any]) -> None:
        self._lock.release()
        future.exception()  # perhaps nobody waits for it any more
