"""Lines that a person types, or that come through a pipe, without holding up the event loop."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import termios
import threading
from collections.abc import Callable, Iterator, Sequence


class LineInput:
    """Reads standard input in a thread, a line each time it is asked; on a terminal with a prompt and readline."""

    def __init__(self, prompt: str, words: Callable[[str], Sequence[str]]) -> None:
        """`words`: what may come next after a beginning of a line, for Tab."""
        self.interactive = sys.stdin.isatty() and sys.stdout.isatty()
        self._prompt = prompt
        self._words = words
        self._loop = asyncio.get_running_loop()
        self._lines: asyncio.Queue[str | None] = asyncio.Queue()
        self._asked = threading.Semaphore(0)
        self._reading = False
        self._rest = b""
        # A thread that waits for a line cannot be ended; a daemon keeps nobody from leaving.
        threading.Thread(target=self._read, daemon=True).start()

    async def next(self) -> str | None:
        """The next line; None at the end of the input."""
        self._asked.release()
        return await self._lines.get()

    def print(self, text: str) -> None:
        """Print, above the line that is being typed."""
        if not self._reading:
            print(text, flush=True)
            return
        import readline

        print(f"\r\033[K{text}\n{self._prompt}{readline.get_line_buffer()}", end="", flush=True)

    def _read(self) -> None:
        if self.interactive:
            self._complete()
        while True:
            self._asked.acquire()
            line = self._typed() if self.interactive else self._piped()
            with contextlib.suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self._lines.put_nowait, line)
            if line is None:
                return

    def _typed(self) -> str | None:
        self._reading = True
        try:
            return input(self._prompt)
        except EOFError:
            print()
            return None
        finally:
            self._reading = False

    def _piped(self) -> str | None:
        """A line without Python's own buffer, whose lock would still be held when the program ends."""
        while b"\n" not in self._rest:
            try:
                more = os.read(0, 4096)
            except OSError:
                more = b""
            if not more:
                line, self._rest = self._rest, b""
                return line.decode(errors="replace") if line else None
            self._rest += more
        line, _, self._rest = self._rest.partition(b"\n")
        return line.decode(errors="replace")

    def _complete(self) -> None:
        import readline

        def complete(text: str, state: int) -> str | None:
            before = readline.get_line_buffer()[: readline.get_begidx()]
            return [f"{word} " for word in self._words(before) if word.startswith(text)][state : state + 1].pop()

        def quiet(text: str, state: int) -> str | None:
            try:
                return complete(text, state)
            except IndexError:
                return None

        readline.set_completer_delims(" ")
        readline.set_completer(quiet)
        readline.parse_and_bind("tab: complete")


@contextlib.contextmanager
def terminal_kept() -> Iterator[None]:
    """Leave the terminal as it was, also when a line is being typed at the end."""
    try:
        before = termios.tcgetattr(0)
    except (termios.error, OSError):
        yield
        return
    try:
        yield
    finally:
        with contextlib.suppress(termios.error, OSError):
            termios.tcsetattr(0, termios.TCSANOW, before)
