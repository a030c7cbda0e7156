"""Lines of input that a user types or a pipe delivers, read without blocking the event loop."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import termios
import threading
from collections.abc import Callable, Iterator, Sequence


class LineInput:
    """A reader of standard input in a thread, one line for each request.

    On a terminal, the reader uses a prompt and readline.
    """

    def __init__(self, prompt: str, list_words: Callable[[str], Sequence[str]]) -> None:
        """Start the reading thread. `list_words` returns the possible next words after the start of a line, for Tab."""
        self.is_interactive = sys.stdin.isatty() and sys.stdout.isatty()
        self._prompt = prompt
        self._list_words = list_words
        self._loop = asyncio.get_running_loop()
        self._lines: asyncio.Queue[str | None] = asyncio.Queue()
        self._requests = threading.Semaphore(0)
        self._is_reading = False
        self._buffer = b""
        # A thread that waits for a line cannot be stopped. A daemon thread does not delay the end of the process.
        threading.Thread(target=self._read_lines, daemon=True).start()

    async def read_line(self) -> str | None:
        """Return the next line, or None at the end of the input."""
        self._requests.release()
        return await self._lines.get()

    def print(self, text: str) -> None:
        """Print a text above the line that the user is typing."""
        if not self._is_reading:
            print(text, flush=True)
            return
        import readline

        print(f"\r\033[K{text}\n{self._prompt}{readline.get_line_buffer()}", end="", flush=True)

    def _read_lines(self) -> None:
        if self.is_interactive:
            self._enable_completion()
        while True:
            self._requests.acquire()
            line = self._read_typed_line() if self.is_interactive else self._read_piped_line()
            with contextlib.suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self._lines.put_nowait, line)
            if line is None:
                return

    def _read_typed_line(self) -> str | None:
        self._is_reading = True
        try:
            return input(self._prompt)
        except EOFError:
            print()
            return None
        finally:
            self._is_reading = False

    def _read_piped_line(self) -> str | None:
        """Return the next line of a pipe, or None at its end.

        Does not use Python's buffer: its lock would still be held when the program ends.
        """
        while b"\n" not in self._buffer:
            try:
                data = os.read(0, 4096)
            except OSError:
                data = b""
            if not data:
                line, self._buffer = self._buffer, b""
                return line.decode(errors="replace") if line else None
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line.decode(errors="replace")

    def _enable_completion(self) -> None:
        import readline

        def complete(text: str, state: int) -> str | None:
            line_start = readline.get_line_buffer()[: readline.get_begidx()]
            return [f"{word} " for word in self._list_words(line_start) if word.startswith(text)][
                state : state + 1
            ].pop()

        def complete_safely(text: str, state: int) -> str | None:
            try:
                return complete(text, state)
            except IndexError:
                return None

        readline.set_completer_delims(" ")
        readline.set_completer(complete_safely)
        readline.parse_and_bind("tab: complete")


@contextlib.contextmanager
def restore_terminal() -> Iterator[None]:
    """Restore the terminal settings at the end, even if a user is typing a line."""
    try:
        previous_settings = termios.tcgetattr(0)
    except (termios.error, OSError):
        yield
        return
    try:
        yield
    finally:
        with contextlib.suppress(termios.error, OSError):
            termios.tcsetattr(0, termios.TCSANOW, previous_settings)
