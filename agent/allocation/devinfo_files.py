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
        self._held = get_held_ids
        self._changed = on_change
        self._one = asyncio.Lock()
        self._stirred = asyncio.Event()
        self._stirred.set()
        self._faults: list[str] = []

    async def write(self, infos: Sequence[DevInfo]) -> None:
        """Have these files there; their ids are held already.

        Raises:
            DevInfoError: that cannot be done.
        """
        await self._alone(lambda: self._begin(infos))

    def request_cleanup(self) -> None:
        """Say that pods may hold less than before."""
        self._stirred.set()

    async def run(self) -> None:
        """Remove the files of what nobody holds, until cancelled."""
        while True:
            await self._stirred.wait()
            self._stirred.clear()
            if not self.has_files:
                continue
            _, faults = await self._alone(self._begin_keeping)
            if faults and faults != self._faults:
                log.warning("devinfo: files of what nobody holds cannot be removed: %s", escape("; ".join(faults)))
            self._faults = faults
            self._changed()

    def _begin(self, infos: Sequence[DevInfo]) -> asyncio.Future[None]:
        """Begin to write; perhaps that ends when nobody waits for it any more."""
        if not self.has_files:
            self.has_files = True
            self._changed()
        return start_in_thread(self._directory.write, infos)

    def _begin_keeping(self) -> asyncio.Future[tuple[bool, list[str]]]:
        """Begin to remove; what is left is known before anything else begins that may leave more."""
        kept = start_in_thread(self._directory.remove_unused, self._held().__contains__)
        kept.add_done_callback(self._kept)
        return kept

    def _kept(self, kept: asyncio.Future[tuple[bool, list[str]]]) -> None:
        if not kept.exception():
            self.has_files, _ = kept.result()

    async def _alone(self, call: Callable[[], asyncio.Future[T]]) -> T:
        """What a call in a thread returns or raises; no other begins before it is done, even if nobody waits for it."""
        await self._one.acquire()
        try:
            done = call()
        except BaseException:  # no thread to be had: the next one may find one
            self._one.release()
            raise
        done.add_done_callback(self._done)
        await asyncio.wait((done,))
        return done.result()

    def _done(self, call: asyncio.Future[Any]) -> None:
        self._one.release()
        call.exception()  # perhaps nobody waits for it any more
