"""The events of the kubelet, in order, and waits for a condition."""

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import TypeVar

from agent.core.struct import Struct, field

T = TypeVar("T")

# Longest time until a condition is evaluated again without an event.
_CHECK_SECONDS = 0.1


class KubeletEvent(Struct):
    """One event. `at` is time.monotonic()."""

    number: int
    at: float
    kind: str
    resource: str = ""
    detail: Mapping[str, object] = field(default_factory=dict)

    def __str__(self) -> str:
        words = (f"{key}={value!r}" for key, value in self.detail.items())
        return " ".join((f"#{self.number}", self.kind, self.resource, *words)).replace("  ", " ")


class KubeletEvents(list[KubeletEvent]):
    """The events over all restarts of one kubelet. The log only grows."""

    def __init__(self, listener: Callable[[KubeletEvent], None] | None = None) -> None:
        super().__init__()
        self._changed = asyncio.Event()
        self._listener = listener

    def select(self, kind: str, resource: str | None = None) -> list[KubeletEvent]:
        return [event for event in self if event.kind == kind and resource in (None, event.resource)]

    def count(self, kind: str, resource: str | None = None) -> int:  # type: ignore[override]  # by kind
        return len(self.select(kind, resource))

    def add(self, kind: str, resource: str = "", **detail: object) -> KubeletEvent:
        event = KubeletEvent(len(self), time.monotonic(), kind, resource, detail)
        self.append(event)
        if self._listener is not None:
            self._listener(event)
        self.wake()
        return event

    def wake(self) -> None:
        """Evaluate the conditions of all callers of `until` again."""
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def until(self, condition: Callable[[], T], timeout: float) -> T:  # noqa: ASYNC109
        """Return the first true value of `condition`.

        Raises:
            TimeoutError: not within `timeout` seconds. The text shows the last events.
        """
        try:
            async with asyncio.timeout(timeout):
                while not (value := condition()):
                    try:
                        async with asyncio.timeout(_CHECK_SECONDS):
                            await self._changed.wait()
                    except TimeoutError:
                        continue
                return value
        except TimeoutError:
            last = "\n  ".join(str(event) for event in self[-10:]) or "none"
            raise TimeoutError(f"not within {timeout} s; the last events:\n  {last}") from None
