"""Room: whether the process may open more files. Without any it goes on, but nobody new reaches it."""

from __future__ import annotations

import asyncio
import logging

from agent.host import open_files

log = logging.getLogger("agent")


class OpenFileMonitor:
    """Says in the log when there is little, and when there is enough again."""

    def __init__(self) -> None:
        self._crowded = ""

    def check(self) -> str:
        """That there is little, in words; empty if there is enough."""
        before, self._crowded = self._crowded, open_files.describe_shortage()
        if self._crowded and not before:
            log.warning("open files: %s: with none left nobody new reaches the agent (LimitNOFILE)", self._crowded)
        elif before and not self._crowded:
            log.info("open files: there is room again")
        return self._crowded

    async def run(self, interval_s: float) -> None:
        """Look so often, until cancelled: nothing tells of it."""
        while True:
            self.check()
            await asyncio.sleep(interval_s)
