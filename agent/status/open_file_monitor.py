"""Monitor of open file descriptors. Without a free descriptor the agent continues, but accepts no new connection."""

from __future__ import annotations

import asyncio
import logging

from agent.host import open_files

log = logging.getLogger("agent")


class OpenFileMonitor:
    """Logs a shortage of file descriptors, and its end."""

    def __init__(self) -> None:
        self._shortage = ""

    def check(self) -> str:
        """Return a text about the shortage, or an empty string. Log a change."""
        previous, self._shortage = self._shortage, open_files.describe_shortage()
        if self._shortage and not previous:
            log.warning(
                "open files: %s: without a free descriptor the agent accepts no new connection (LimitNOFILE)",
                self._shortage,
            )
        elif previous and not self._shortage:
            log.info("open files: descriptors are free again")
        return self._shortage

    async def run(self, interval_s: float) -> None:
        """Check in this interval until cancelled. No event reports a shortage."""
        while True:
            self.check()
            await asyncio.sleep(interval_s)
