"""Wait for a condition that another task changes. That task reports when to check it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

PATIENCE = 60.0  # seconds: whatever takes longer is a failure and no measurement


class Waits:
    """All who wait for something to hold."""

    def __init__(self) -> None:
        self._all: list[tuple[Callable[[], bool], asyncio.Future[None]]] = []

    async def until(self, condition: Callable[[], bool]) -> None:
        """Return when it holds; it is looked at now, and at each `look`."""
        if condition():
            return
        wait: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._all.append((condition, wait))
        async with asyncio.timeout(PATIENCE):
            await wait

    def look(self) -> None:
        """Report a change: each task whose condition is true now continues."""
        for wait in [wait for wait in self._all if wait[0]()]:
            self._all.remove(wait)
            if not wait[1].done():
                wait[1].set_result(None)
