"""Processes: programs that a configuration names, each with its arguments, never a shell.

Each is in a process group of its own, which ends with it: what it leaves running there is killed. Only who leaves the
group as well (setsid) stays, and whatever of it holds the output is not waited for.
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

OUTPUT_LIMIT = 4096  # bytes of what a program says that are kept
ENVIRONMENT: Mapping[str, str] = MappingProxyType(
    {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8"}
)
_END_SECONDS = 1.0  # seconds for which a cancelled call waits for what it began, so that nothing of it comes later
_CHUNK = 65536  # bytes, as many as a pipe holds
_UNTHROTTLED_BYTES = 16 * _CHUNK  # bytes that are read as they come; behind these
_PAUSE_SECONDS = 0.001  # seconds pass between two chunks, so that what nobody keeps costs little


class ProgramResult(Struct):
    """How a program ended: its exit code, or minus the signal that ended it; None while it has not. And what it said.

    output: what it wrote to stdout and stderr, the first `OUTPUT_LIMIT` bytes.
    """

    code: int | None
    output: str = ""

    @property
    def ending(self) -> str:
        """That in words."""
        if self.code is None:
            return "does not end"
        if self.code < 0:
            with suppress(ValueError):
                return f"ended by {signal.Signals(-self.code).name}"
            return f"ended by signal {-self.code}"
        return f"exit code {self.code}"


class Child:
    """A program that runs. `stdout` is the reading end of its output, which does not block."""

    def __init__(self, process: subprocess.Popen[bytes], stdout: int) -> None:
        self.pid = process.pid
        self.stdout = stdout
        self._process = process
        # It is left a zombie until its group is killed: until then nobody else can have its number. A thread waits,
        # because a pidfd needs a newer kernel than nodes have, and the loop's own ways reap.
        self._end = start_in_thread(os.waitid, os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)

    async def wait(self, seconds: float | None = None) -> int | None:
        """The code, as soon as it has ended; None if it has not after so long."""
        await asyncio.wait([self._end], timeout=seconds)
        return self.code

    def set_at_end(self, event: asyncio.Event) -> None:
        """Have an event set when it ends."""
        self._end.add_done_callback(lambda _: event.set())

    @property
    def code(self) -> int | None:
        """The exit code, or minus the signal that ended it; None while it runs."""
        result = self._end.result() if self._end.done() else None
        return None if result is None else result.si_status if result.si_code == os.CLD_EXITED else -result.si_status

    async def close(self) -> None:
        """Kill it and its group, and return when it is gone, which what waits for dead hardware may never be."""
        _kill(self._process)
        self._end.add_done_callback(lambda _: self._process.wait())  # reaped, whoever waits for it by then
        try:
            await asyncio.wait([self._end])
        except asyncio.CancelledError:
            await asyncio.wait([self._end], timeout=_END_SECONDS)
            raise


@asynccontextmanager
async def start_program(
    argv: Sequence[str], environment: Mapping[str, str] = ENVIRONMENT, *, errors: int = subprocess.STDOUT
) -> AsyncIterator[Child]:
    """Run a program; when the block is left, it and its group are killed.

    errors: where its stderr goes, as `subprocess` has it.

    Raises:
        OSError: it cannot be started.
    """
    starting = start_in_thread(
        _start, argv, environment, errors
    )  # aside: a program may lie on a disk that does not answer
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
    """A program that runs, and the reading end of its output."""
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
    with suppress(ProcessLookupError, PermissionError):  # the latter where all that is left runs as somebody else
        os.killpg(process.pid, signal.SIGKILL)


def _end_unneeded(starting: asyncio.Future[tuple[subprocess.Popen[bytes], int]]) -> asyncio.Future[int] | None:
    """Kill what had started by the time that nobody wanted it any more; done when it is gone."""
    if starting.cancelled() or starting.exception() is not None:
        return None
    process, stdout = starting.result()
    os.close(stdout)
    _kill(process)
    return start_in_thread(process.wait)


@asynccontextmanager
async def read_output(fd: int, listen: Callable[[bytes], None]) -> AsyncIterator[None]:
    """Have `listen` told whatever comes from a file that does not block, at the latest when the block is left.

    Who floods is read slowly, and then has to wait.
    """
    loop = asyncio.get_running_loop()
    is_open, size = True, 0
    waiting: asyncio.TimerHandle | None = None

    def read() -> bool:
        """Whether there may be more at once."""
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
    """Run a program to its end, or for so many seconds; how that went is known in the block.

    What has not ended by then is killed when the block is left, which then lasts until it is gone. So who enters it
    again only then never has the same program pile up, and yet knows in time that it hangs.

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
