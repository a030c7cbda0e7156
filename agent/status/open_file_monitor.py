"""Room: whether the process may open more files. Without any it goes on, but nobody new reaches it."""

from __future__ import annotations

import asyncio
import logging

from agent.host import open_files

log = logging.getLogger("agent")


class OpenFileMonitor:
    """Says in the log when there is little, and when there is enough again."""

    def __init__(self) -> None:
        self._shortage = ""

    def check(self) -> str:
        """That there is little, in words; empty if there is enough."""
        previous, self._shortage = self._shortage, open_files.describe_shortage()
        if self._shortage and not previous:
            log.warning("open files: %s: with none left nobody new reaches the agent (LimitNOFILE)", self._shortage)
        elif previous and not self._shortage:
            log.info("open files: there is room again")
        return self._shortage

    async def run(self, interval_s: float) -> None:
        """Look so often, until cancelled: nothing tells of it."""
        while True:
            self.check()
            await asyncio.sleep(interval_s)
