"""The state file: what must survive a restart. Ids given (so that they are given again) and ids that pods may hold.

JSON, written whole and renamed into place. A file that is missing, of another version or damaged is reported and
taken as empty: nothing in it is needed to serve what is there.
"""

from __future__ import annotations

import asyncio
import errno
import json
import logging
import os
import stat

from agent.core.struct import replace
from agent.state.state_format import SavedState, StateWriter, parse_state, rebooted

FILE = "state.json"
SIZE_LIMIT = 64 * 1024 * 1024  # bytes; a hundred times what 10,000 devices take
LAST_WRITE_SECONDS = 2.0  # how long the way out may wait for a disk

log = logging.getLogger(__name__)


def load_state(directory: str, boot_id: str = "") -> SavedState:
    """The state of the agent's last life. `boot` is this one: what counts from boot on does not outlast it."""
    path = os.path.join(directory, FILE)
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise OSError(errno.EINVAL, "no plain file")
            text = file.read(SIZE_LIMIT + 1)
    except FileNotFoundError:
        return SavedState()
    except OSError as error:
        log.warning("state: %s cannot be read (%s): starting without it", path, error)
        return SavedState()
    try:
        if len(text) > SIZE_LIMIT:
            raise ValueError(f"more than {SIZE_LIMIT} bytes")
        state = parse_state(json.loads(text))
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        log.warning("state: %s is not as this version writes it (%r): starting without it", path, error)
        return SavedState()
    if state.boot_id == boot_id:
        return state
    return replace(
        state,
        lists=rebooted(state.lists),
        saved_checks=replace(state.saved_checks, counted={}, cleared={}, well={}),
        boot_id=boot_id,
    )


class StateFile:
    """Writes the newest state after each change; while it writes, further changes become one.

    Attributes:
        path: of the file.
        fault: why what was saved last could not be written; empty if it is, or nothing was tried.
    """

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self.path = os.path.join(directory, FILE)
        self._newest_state: SavedState | None = None
        self._written_text = ""
        self._writer = StateWriter()
        self._changed = asyncio.Event()
        self.fault = ""
        self._tried_state: SavedState | None = None  # what was written last, or could not be
        self._progress = asyncio.Event()

    def save(self, state: SavedState) -> None:
        """Have a state written soon."""
        self._newest_state = state
        self._changed.set()

    async def wait_until_saved(self) -> bool:
        """Return when what was saved last is written, or cannot be; whether it is."""
        while self._tried_state is not self._newest_state:
            await self._progress.wait()
        return not self.fault

    async def run(self) -> None:
        """Write whatever is saved, until cancelled; what was saved last is written even then."""
        write_task: asyncio.Task[None] | None = None
        try:
            while True:
                await self._changed.wait()
                self._changed.clear()
                # Not to be torn by a cancellation: its thread would go on, beside that of the last write.
                write_task = asyncio.create_task(self._write())
                await asyncio.shield(write_task)
        finally:
            await self._finish(write_task)

    async def _finish(self, write_task: asyncio.Task[None] | None) -> None:
        try:
            async with asyncio.timeout(LAST_WRITE_SECONDS):
                if write_task is not None:
                    await write_task
                await self._write()
        except (TimeoutError, asyncio.CancelledError):  # as what in Python 3.11.2, where it was cancelled before
            log.warning("state: the disk does not answer: what changed last is not remembered")

    async def _write(self) -> None:
        state = self._newest_state
        if state is None:
            return
        await self._put_state(state)
        self._tried_state = state
        self._progress.set()
        self._progress = asyncio.Event()

    async def _put_state(self, state: SavedState) -> None:
        import aiofiles.os  # the first lists need not wait for it

        path = self.path
        text = await asyncio.to_thread(self._writer.format_state, state)
        if text == self._written_text:
            self._clear_fault()
            return
        try:
            await aiofiles.os.makedirs(self._directory, mode=0o700, exist_ok=True)
            async with aiofiles.open(f"{path}.new", "w", encoding="utf-8") as file:
                await file.write(text)
                await file.flush()
                await asyncio.to_thread(os.fsync, file.fileno())
            await aiofiles.os.replace(f"{path}.new", path)
        except OSError as error:
            if not self.fault:
                log.warning("state: cannot be written (%s): ids held by pods will not outlast a restart", error)
            self.fault = f"{path}: {error.strerror or error}"
            return
        self._clear_fault()
        self._written_text = text

    def _clear_fault(self) -> None:
        if self.fault:
            log.info("state: is written again")
        self.fault = ""
