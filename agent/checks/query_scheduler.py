"""Asking: inquiries are answered over and over, each in its time, few at once; looks find the answers.

One wheel for all. What becomes due together is spread over the time until it is due again. An inquiry that nothing
rests on any more is dropped when it is due.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from heapq import heappop, heappush
from itertools import count
from math import inf
from typing import TypeAlias

from agent.checks.query_user import QueryUser
from agent.core.entry.query import PolledQuery, QueryResult, QueryStatus
from agent.core.struct import replace

WORKERS = 8  # inquiries that are asked at once: what hangs costs one of them, for as long as it may take
_GOLDEN = 0.6180339887498949  # whose multiples spread most evenly
_AWAITED = QueryResult(QueryStatus.PENDING, "no answer yet")


QueryFunction: TypeAlias = Callable[[PolledQuery], AsyncGenerator[QueryResult, None]]


class QueryScheduler:
    """Knows the answers.

    Args:
        ask: asks; it tells the answer, and later ones if it learns of them by itself. What asking leaves behind is gone
            when it ends, and then it is asked again in its time.
    """

    def __init__(self, ask: QueryFunction) -> None:
        self._ask = ask
        self._answers: dict[PolledQuery, QueryResult] = {}
        self._new: deque[PolledQuery] = deque()
        self._idle: list[PolledQuery] = []
        self._due: list[tuple[float, int, PolledQuery]] = []
        self._numbers = count(1)
        self._workers = asyncio.Semaphore(WORKERS)
        self._more = asyncio.Event()

    def get_result(self, inquiry: PolledQuery) -> QueryResult:
        """What is known of an inquiry. One that was never heard of is asked after the next `looked`. Any thread."""
        known = self._answers.get(inquiry)
        if known is None:
            self._new.append(inquiry)
        return known or _AWAITED

    def finish_look(self, looks: QueryUser) -> None:
        """A look is over: have what it asked for the first time asked at once, and drop what nothing rests on."""
        for inquiry in self._idle:
            if looks.needs_query(inquiry.dirty_key):
                self._new.append(inquiry)
            del self._answers[inquiry]
        self._idle.clear()
        if self._new:
            self._more.set()

    async def run(self, looks: QueryUser) -> None:
        """Ask, until cancelled."""
        loop = asyncio.get_running_loop()
        async with asyncio.TaskGroup() as tasks:
            while True:
                self._more.clear()
                while self._new:
                    inquiry = self._new.popleft()
                    if inquiry not in self._answers:
                        self._answers[inquiry] = _AWAITED
                        tasks.create_task(self._answered(inquiry, looks, first=True))
                while self._due and self._due[0][0] <= loop.time():
                    _, _, inquiry = heappop(self._due)
                    if looks.needs_query(inquiry.dirty_key):
                        tasks.create_task(self._answered(inquiry, looks))
                    else:
                        self._idle.append(inquiry)  # it may be of a look that is not over yet
                await self._until(self._due[0][0] if self._due else inf)

    async def _until(self, when: float) -> None:
        try:
            async with asyncio.timeout_at(None if when == inf else when):
                await self._more.wait()
        except TimeoutError:
            return

    async def _answered(self, inquiry: PolledQuery, looks: QueryUser, *, first: bool = False) -> None:
        """Ask once, and have it asked again in its time."""
        loop = asyncio.get_running_loop()
        async with aclosing(self._ask(inquiry)) as answers:
            async with self._workers:
                began = loop.time()
                answer = await anext(answers)
            number = self._hear(inquiry, answer, looks)
            async for answer in answers:
                self._hear(inquiry, answer, looks)
        part = number * _GOLDEN % 1.0 if first else 1.0
        heappush(self._due, (max(began + inquiry.interval * part, loop.time()), number, inquiry))
        self._more.set()

    def _hear(self, inquiry: PolledQuery, answer: QueryResult, looks: QueryUser) -> int:
        """Remember an answer and say so; its number."""
        number = next(self._numbers)
        changed = self._answers[inquiry].status is not answer.status
        self._answers[inquiry] = replace(answer, number=number)
        looks.report_change(inquiry.dirty_key, changed=changed)
        return number
