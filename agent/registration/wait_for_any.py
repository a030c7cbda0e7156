"""Wait for the first of several coroutines, and cancel the others."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any


async def wait_for_any(*waits: Coroutine[Any, Any, Any], seconds: float | None = None) -> Any:  # noqa: ANN401
    """Return the result of the first coroutine that ends, or None after `seconds`. All others are cancelled and
    finished.
    """
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    try:
        done, _ = await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return next((task.result() for task in tasks if task in done), None)
