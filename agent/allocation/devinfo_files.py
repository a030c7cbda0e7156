"""Device-information files of held IDs. A file exists before the answer to the kubelet, until no pod uses the ID."""

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
    """The writer of the files. Only one operation runs at a time, so no file of a new grant is removed.

    Args:
        directory: the directory of the files.
        get_held_ids: returns the IDs that pods may use. While IDs are unconfirmed, all listed IDs.
        on_change: called when `has_files` may have changed.

    Attributes:
        has_files: files of this agent may exist. True before the first cleanup.
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
        """Write these files. Their IDs are already held.

        Raises:
            DevInfoError: a file cannot be written.
        """
        await self._run_exclusively(lambda: self._start_write(infos))

    def request_cleanup(self) -> None:
        """Request a cleanup, because pods may have released IDs."""
        self._cleanup_needed.set()

    async def run(self) -> None:
        """Remove the files of released IDs, until cancelled."""
        while True:
            await self._cleanup_needed.wait()
            self._cleanup_needed.clear()
            if not self.has_files:
                continue
            _, faults = await self._run_exclusively(self._start_cleanup)
            if faults and faults != self._faults:
                log.warning("devinfo: files of unused devices cannot be removed: %s", escape("; ".join(faults)))
            self._faults = faults
            self._on_change()

    def _start_write(self, infos: Sequence[DevInfo]) -> asyncio.Future[None]:
        """Start to write. The write may end after its request has timed out."""
        if not self.has_files:
            self.has_files = True
            self._on_change()
        return start_in_thread(self._directory.write, infos)

    def _start_cleanup(self) -> asyncio.Future[tuple[bool, list[str]]]:
        """Start to remove files. The result is known before the next operation starts."""
        cleanup = start_in_thread(self._directory.remove_unused, self._get_held_ids().__contains__)
        cleanup.add_done_callback(self._finish_cleanup)
        return cleanup

    def _finish_cleanup(self, cleanup: asyncio.Future[tuple[bool, list[str]]]) -> None:
        if not cleanup.exception():
            self.has_files, _ = cleanup.result()

    async def _run_exclusively(self, call: Callable[[], asyncio.Future[T]]) -> T:
        """Return the result of a call in a thread, or raise its exception. No other call starts before its end."""
        await self._lock.acquire()
        try:
            future = call()
        except BaseException:  # no thread could start; the next call may succeed
            self._lock.release()
            raise
        future.add_done_callback(self._finish_call)
        await asyncio.wait((future,))
        return future.result()

    def _finish_call(self, future: asyncio.Future[Any]) -> None:
        self._lock.release()
        future.exception()  # the request may have timed out
