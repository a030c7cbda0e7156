"""Programs that a configuration names, each started with its arguments and never by a shell.

Each program has its own process group. The group ends with the program: processes that it leaves running are killed.
Only a process that leaves the group too (setsid) stays. Nothing waits for a process that still holds the output.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from types import MappingProxyType

from agent.core.struct import Struct
from agent.host.daemon_thread import start_in_thread

OUTPUT_LIMIT = 4096  # bytes of output that are kept
ENVIRONMENT: Mapping[str, str] = MappingProxyType(
    {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8"}
)
_END_SECONDS = 1.0  # seconds that a cancelled call waits for the end of what it started
_CHUNK = 65536  # bytes: the size of a pipe
_UNTHROTTLED_BYTES = 16 * _CHUNK  # bytes that are read without a pause; after these
_PAUSE_SECONDS = 0.001  # seconds pass between two chunks, so that discarded output costs little


class ProgramResult(Struct):
    """How a program ended, and its output.

    code: the exit code, or minus the signal that ended it. None while it runs.
    output: the first `OUTPUT_LIMIT` bytes of stdout and stderr.
    """

    code: int | None
    output: str = ""

    @property
    def ending(self) -> str:
        """Return the text of how the program ended."""
        if self.code is None:
            return "does not end"
        if self.code < 0:
            with suppress(ValueError):
                return f"ended by {signal.Signals(-self.code).name}"
            return f"ended by signal {-self.code}"
        return f"exit code {self.code}"


class Child:
    """A running program. `stdout` is the reading end of its output and does not block."""

    def __init__(self, process: subprocess.Popen[bytes], stdout: int) -> None:
        self.pid = process.pid
        self.stdout = stdout
        self._process = process
        # The program stays a zombie until its group is killed: so its process ID is not used again. A thread waits,
        # because a pidfd needs a newer kernel than nodes have, and the child watchers of the loop reap.
        self._end = start_in_thread(os.waitid, os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)

    async def wait(self, seconds: float | None = None) -> int | None:
        """Return the exit code when the program has ended, or None if it runs longer than `seconds`."""
        await asyncio.wait([self._end], timeout=seconds)
        return self.code

    def set_at_end(self, event: asyncio.Event) -> None:
        """Set an event when the program ends."""
        self._end.add_done_callback(lambda _: event.set())

    @property
    def code(self) -> int | None:
        """The exit code, or minus the signal that ended it. None while it runs."""
        result = self._end.result() if self._end.done() else None
        return None if result is None else result.si_status if result.si_code == os.CLD_EXITED else -result.si_status

    async def close(self) -> None:
        """Kill the program and its group, and return when it has ended.

        If it waits for dead hardware, this may be never.
        """
        _kill(self._process)
        self._end.add_done_callback(lambda _: self._process.wait())  # always reaped, also without a waiting task
        try:
            await asyncio.wait([self._end])
        except asyncio.CancelledError:
            await asyncio.wait([self._end], timeout=_END_SECONDS)
            raise


@asynccontextmanager
async def start_program(
    argv: Sequence[str], environment: Mapping[str, str] = ENVIRONMENT, *, errors: int = subprocess.STDOUT
) -> AsyncIterator[Child]:
    """Run a program. When the block ends, the program and its group are killed.

    errors: where its stderr goes, as in `subprocess`.

    Raises:
        OSError: it cannot be started.
    """
    # In a thread: the program may be on a disk that does not respond.
    starting = start_in_thread(_start, argv, environment, errors)
    try:
        process, stdout = await asyncio.shield(starting)
    except asyncio.CancelledError:
        await asyncio.wait([starting], timeout=_END_SECONDS)
        if not starting.done():
            starting.add_done_callback(_end_unneeded)
        elif (end := _end_unneeded(starting)) is not None:
            await asyncio.wait([end], timeout=_END_SECONDS)
        raise
    try:
        child = Child(process, stdout)
        try:
            yield child
        finally:
            await child.close()
    finally:
        os.close(stdout)


def _start(argv: Sequence[str], environment: Mapping[str, str], errors: int) -> tuple[subprocess.Popen[bytes], int]:
    """Start a program. Return its process and the reading end of its output."""
    reading, writing = os.pipe()
    try:
        os.set_blocking(reading, False)
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=writing,
            stderr=errors,
            env={**environment},
            start_new_session=True,
            cwd="/",
        )
    except BaseException:
        os.close(reading)
        raise
    finally:
        os.close(writing)
    return process, reading


def _kill(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError, PermissionError):  # PermissionError: all remaining processes run as another user
        os.killpg(process.pid, signal.SIGKILL)


def _end_unneeded(starting: asyncio.Future[tuple[subprocess.Popen[bytes], int]]) -> asyncio.Future[int] | None:
    """Kill a program that started after its caller was cancelled. The returned future is done when it has ended."""
    if starting.cancelled() or starting.exception() is not None:
        return None
    process, stdout = starting.result()
    os.close(stdout)
    _kill(process)
    return start_in_thread(process.wait)


@asynccontextmanager
async def read_output(fd: int, listen: Callable[[bytes], None]) -> AsyncIterator[None]:
    """Call `listen` with all data from a file that does not block, at the latest when the block ends.

    A program that writes too much is read slowly, and must then wait.
    """
    loop = asyncio.get_running_loop()
    is_open, size = True, 0
    waiting: asyncio.TimerHandle | None = None

    def read() -> bool:
        """Return whether there may be more data at once."""
        nonlocal is_open, size
        try:
            data = os.read(fd, _CHUNK)
        except BlockingIOError:
            return False
        if not data and is_open:
            is_open = False
            loop.remove_reader(fd)
        if data:
            listen(data)
        size += len(data)
        return bool(data)

    def readable() -> None:
        nonlocal waiting
        if read() and size > _UNTHROTTLED_BYTES:
            loop.remove_reader(fd)
            waiting = loop.call_later(_PAUSE_SECONDS, loop.add_reader, fd, readable)

    loop.add_reader(fd, readable)
    try:
        yield
    finally:
        if waiting is not None:
            waiting.cancel()
        if is_open:
            loop.remove_reader(fd)
            is_open = False
            read()


@asynccontextmanager
async def run_program(
    argv: Sequence[str],
    seconds: float,
    environment: Mapping[str, str] = ENVIRONMENT,
) -> AsyncIterator[ProgramResult]:
    """Run a program until it ends, but at most `seconds`, and yield its result.

    A program that has not ended by then is killed when the block ends. Leaving the block waits for its end. So a caller
    that starts the program only then never has two of them, and still knows in time that it hangs.

    Raises:
        OSError: it cannot be started.
    """
    output = bytearray()

    def listen(data: bytes) -> None:
        output.extend(data[: OUTPUT_LIMIT - len(output)])

    async with start_program(argv, environment) as child:
        async with read_output(child.stdout, listen):
            code = await child.wait(seconds)
        yield ProgramResult(code, output.decode("utf-8", "replace"))
