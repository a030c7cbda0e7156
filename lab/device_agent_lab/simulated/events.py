"""The events of the kubelet, in order, and waits for a condition."""

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar, overload

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


class KubeletEvents(Sequence[KubeletEvent]):
    """The events over all restarts of one kubelet. The log only grows."""

    def __init__(self, listener: Callable[[KubeletEvent], None] | None = None) -> None:
        self._all: list[KubeletEvent] = []
        self._changed = asyncio.Event()
        self._listener = listener

    @overload
    def __getitem__(self, index: int) -> KubeletEvent: ...
    @overload
    def __getitem__(self, index: slice) -> list[KubeletEvent]: ...
    def __getitem__(self, index: int | slice) -> KubeletEvent | list[KubeletEvent]:
        return self._all[index]

    def __len__(self) -> int:
        return len(self._all)

    def select(self, kind: str, resource: str | None = None) -> list[KubeletEvent]:
        return list(self._find_events(kind, resource))

    def count(self, kind: str, resource: str | None = None) -> int:
        return sum(1 for _ in self._find_events(kind, resource))

    def _find_events(self, kind: str, resource: str | None) -> Iterator[KubeletEvent]:
        return (e for e in self._all if e.kind == kind and resource in (None, e.resource))

    def add(self, kind: str, resource: str = "", **detail: object) -> KubeletEvent:
        event = KubeletEvent(len(self._all), time.monotonic(), kind, resource, detail)
        self._all.append(event)
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
            last = "\n  ".join(str(event) for event in self._all[-10:]) or "none"
            raise TimeoutError(f"not within {timeout} s; the last events:\n  {last}") from None
