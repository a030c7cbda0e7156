"""The state file: the device IDs (so that devices get the same IDs again), and the IDs that pods may use.

JSON, written completely and then renamed. If the file is missing, damaged or of another version, the agent logs that
and starts with an empty state. The agent can serve without the file.
"""

from __future__ import annotations

import asyncio
import errno
import json
import logging
import os
import stat

from agent.core.struct import replace
from agent.state.state_format import SavedState, StateWriter, parse_state, reset_for_boot

FILE = "state.json"
SIZE_LIMIT = 64 * 1024 * 1024  # bytes; a hundred times the size for 10,000 devices
LAST_WRITE_SECONDS = 2.0  # for the last write at the end

log = logging.getLogger(__name__)


def load_state(directory: str, boot_id: str = "") -> SavedState:
    """Return the saved state. If `boot_id` differs from the saved one, drop the values that are valid for one boot."""
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
        lists=reset_for_boot(state.lists),
        saved_checks=replace(state.saved_checks, counter_values={}, cleared_lines={}, healthy_locations={}),
        boot_id=boot_id,
    )


class StateFile:
    """The writer of the newest state. Changes during a write lead to one more write.

    Attributes:
        path: path of the file.
        fault: why the newest state cannot be written. Empty if it is written, or before the first write.
    """

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self.path = os.path.join(directory, FILE)
        self._newest_state: SavedState | None = None
        self._written_text = ""
        self._writer = StateWriter()
        self._changed = asyncio.Event()
        self.fault = ""
        self._tried_state: SavedState | None = None  # the state of the last write, successful or not
        self._progress = asyncio.Event()

    def save(self, state: SavedState) -> None:
        """Request a write of this state."""
        self._newest_state = state
        self._changed.set()

    async def wait_until_saved(self) -> bool:
        """Return after the write of the newest state, or its failure. Return whether it is written."""
        while self._tried_state is not self._newest_state:
            await self._progress.wait()
        return not self.fault

    async def run(self) -> None:
        """Write states until cancelled. After a cancellation, write the newest state."""
        write_task: asyncio.Task[None] | None = None
        try:
            while True:
                await self._changed.wait()
                self._changed.clear()
                # A cancellation must not interrupt the write: its thread would continue during the last write.
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
        except (
            TimeoutError,
            asyncio.CancelledError,
        ):  # Python 3.11.2 raises CancelledError after an earlier cancellation
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
        import aiofiles.os  # the import must not delay the first lists

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
