"""Aside: a call that may never come back, in a thread of its own that nobody has to wait for.

A read of sysfs can wait for the hardware for as long as that likes, and no signal ends it. Threads of
`concurrent.futures` are joined when the process exits; these are not, so whatever is stuck ends with the process.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


async def run_in_thread(function: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
    """What the function returns or raises. Cancelled, it comes back at once, and the thread is left to itself."""
    return await start_in_thread(function, *arguments, **named)


def start_in_thread(function: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> asyncio.Future[T]:
    """The same, begun: done as soon as the thread is, unless it was cancelled before."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def settle(result: T | None, error: BaseException | None) -> None:
        if future.done():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)  # type: ignore[arg-type]  # there is a result wherever there is no error

    def work() -> None:
        result, error = None, None
        try:
            result = function(*arguments, **named)
        except BaseException as raised:  # noqa: BLE001  it is raised where it is awaited
            error = raised
        try:
            loop.call_soon_threadsafe(settle, result, error)
        except RuntimeError:
            return  # the loop is closed: nobody waits any more

    threading.Thread(target=work, name=getattr(function, "__name__", "aside"), daemon=True).start()
    return future


class DaemonThreads(ThreadPoolExecutor):
    """The same for a loop as its own executor: each call has a thread that nobody waits for at the end.

    What `asyncio.to_thread` and aiofiles have begun would else hold up the end of the process for as long as a disk
    does not answer: a loop joins the threads of its executor, and so does the interpreter.
    """

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Begin a call."""
        future: Future[T] = Future()

        def work() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                result = fn(*args, **kwargs)
            except BaseException as raised:  # noqa: BLE001  it is raised where it is awaited
                future.set_exception(raised)
            else:
                future.set_result(result)

        threading.Thread(target=work, name=getattr(fn, "__name__", "aside"), daemon=True).start()
        return future
