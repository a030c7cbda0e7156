"""The scheduler of queries: each query runs again and again at its interval, few at once. Looks read the results.

One queue serves all queries. Queries that are due at the same time are spread over their interval. A query that nothing
depends on is dropped when it is due.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from heapq import heappop, heappush
from itertools import count
from math import inf
from typing import Protocol, TypeAlias

from agent.core.entry.query import PolledQuery, QueryResult, QueryStatus
from agent.core.struct import replace

WORKERS = 8  # queries that run at the same time. A query that hangs uses one of these up to its timeout
_GOLDEN = 0.6180339887498949  # multiples of the golden ratio spread most evenly
PENDING_RESULT = QueryResult(QueryStatus.PENDING, "no answer yet")


QueryFunction: TypeAlias = Callable[[PolledQuery], AsyncGenerator[QueryResult, None]]


class QueryUser(Protocol):
    """The user of query results and probe reports. It makes looks."""

    def needs_query(self, dirty_key: str) -> bool:
        """Return whether a device uses the query with this dirty key."""

    def needs_probe(self, dirty_key: str) -> bool:
        """Return whether a device uses a report of the probe with this dirty key."""

    def report_change(self, dirty_key: str, *, changed: bool) -> None:
        """Handle a new result or report. `changed`: it differs from the previous one."""


class QueryScheduler:
    """The queries and their results.

    Args:
        ask: runs a query. It yields the result, and later ones if it finds them by itself. When it ends, nothing of the
            query is left. Then the query runs again at its next time.
    """

    def __init__(self, ask: QueryFunction) -> None:
        self._ask = ask
        self._results: dict[PolledQuery, QueryResult] = {}
        self._new: deque[PolledQuery] = deque()
        self._idle: list[PolledQuery] = []
        self._due: list[tuple[float, int, PolledQuery]] = []
        self._numbers = count(1)
        self._workers = asyncio.Semaphore(WORKERS)
        self._has_work = asyncio.Event()

    def get_result(self, query: PolledQuery) -> QueryResult:
        """Return the result of a query. A new query runs after the next `finish_look`. Any thread may call this."""
        result = self._results.get(query)
        if result is None:
            self._new.append(query)
        return result or PENDING_RESULT

    def finish_look(self, user: QueryUser) -> None:
        """Start the queries that the finished look added, and drop those that nothing depends on."""
        for query in self._idle:
            if user.needs_query(query.dirty_key):
                self._new.append(query)
            del self._results[query]
        self._idle.clear()
        if self._new:
            self._has_work.set()

    async def run(self, user: QueryUser) -> None:
        """Run queries until cancelled."""
        loop = asyncio.get_running_loop()
        async with asyncio.TaskGroup() as tasks:
            while True:
                self._has_work.clear()
                while self._new:
                    query = self._new.popleft()
                    if query not in self._results:
                        self._results[query] = PENDING_RESULT
                        tasks.create_task(self._run_query(query, user, is_first=True))
                while self._due and self._due[0][0] <= loop.time():
                    _, _, query = heappop(self._due)
                    if user.needs_query(query.dirty_key):
                        tasks.create_task(self._run_query(query, user))
                    else:
                        self._idle.append(query)  # the current look may still need it
                await self._wait_until(self._due[0][0] if self._due else inf)

    async def _wait_until(self, deadline: float) -> None:
        try:
            async with asyncio.timeout_at(None if deadline == inf else deadline):
                await self._has_work.wait()
        except TimeoutError:
            return

    async def _run_query(self, query: PolledQuery, user: QueryUser, *, is_first: bool = False) -> None:
        """Run a query once and schedule its next run."""
        loop = asyncio.get_running_loop()
        async with aclosing(self._ask(query)) as results:
            async with self._workers:
                start_time = loop.time()
                result = await anext(results)
            number = self._store_result(query, result, user)
            async for result in results:
                self._store_result(query, result, user)
        share = number * _GOLDEN % 1.0 if is_first else 1.0
        heappush(self._due, (max(start_time + query.interval * share, loop.time()), number, query))
        self._has_work.set()

    def _store_result(self, query: PolledQuery, result: QueryResult, user: QueryUser) -> int:
        """Store a result, report it to the user and return its number."""
        number = next(self._numbers)
        changed = self._results[query].status is not result.status
        self._results[query] = replace(result, number=number)
        user.report_change(query.dirty_key, changed=changed)
        return number
