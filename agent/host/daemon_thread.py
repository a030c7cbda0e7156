"""Calls that may never return, each in a daemon thread that nothing waits for at exit.

A read of sysfs can wait for the hardware without limit, and no signal ends it. Threads of `concurrent.futures` are
joined when the process exits. Daemon threads are not, so a blocked call ends with the process.
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
    """Return the result of the function, or raise its exception.

    A cancelled call returns at once and leaves the thread running.
    """
    return await start_in_thread(function, *arguments, **named)


def start_in_thread(function: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> asyncio.Future[T]:
    """Start the function in a thread and return its future.

    The future is done when the thread is, unless it is cancelled.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def set_result(result: T | None, error: BaseException | None) -> None:
        if future.done():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)  # type: ignore[arg-type]  # without an error there is a result

    def run() -> None:
        result, error = None, None
        try:
            result = function(*arguments, **named)
        except BaseException as raised:  # noqa: BLE001  raised in the awaiting task
            error = raised
        try:
            loop.call_soon_threadsafe(set_result, result, error)
        except RuntimeError:
            return  # the loop is closed: no task waits

    threading.Thread(target=run, name=getattr(function, "__name__", "aside"), daemon=True).start()
    return future


class DaemonThreads(ThreadPoolExecutor):
    """Executor for a loop: each call has a daemon thread.

    Calls of `asyncio.to_thread` and aiofiles would otherwise delay the end of the process while a disk does not
    respond. A loop joins the threads of its executor, and the interpreter does so too.
    """

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Start a call and return its future."""
        future: Future[T] = Future()

        def run() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                result = fn(*args, **kwargs)
            except BaseException as raised:  # noqa: BLE001  raised in the awaiting task
                future.set_exception(raised)
            else:
                future.set_result(result)

        threading.Thread(target=run, name=getattr(fn, "__name__", "aside"), daemon=True).start()
        return future
