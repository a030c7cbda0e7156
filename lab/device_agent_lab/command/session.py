"""The interactive session of the lab: input lines, their answers, and events as they happen."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sys
import termios
import threading
import time
from collections.abc import Callable, Iterator, Sequence

from agent.cli.terminal import Terminal
from agent.core.language.safe_text import escape
from device_agent_lab.command.lab import DEADLINE, Lab, format_clock
from device_agent_lab.command.lab_commands import LabCommandError, LabCommands
from device_agent_lab.simulated.events import KubeletEvent

FAILED = 1
PROMPT = "lab> "
_EVENT_TEXTS = {"listening": "kubelet.sock exists", "stopped": "stopped", "crashed": "crashed"}


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
            words = [f"{word} " for word in self._list_words(line_start) if word.startswith(text)]
            return words[state] if state < len(words) else None

        readline.set_completer_delims(" ")
        readline.set_completer(complete)
        readline.parse_and_bind("tab: complete")


class Session:
    """The session of one user in one lab."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._since = time.monotonic()
        self._lines: LineInput | None = None

    async def run(self, lab: Lab) -> int:
        """Start the kubelet and run all input lines. Return FAILED if a line from a pipe fails, else 0."""
        commands = LabCommands(lab, self._terminal)
        line_input = LineInput(PROMPT, commands.list_next_words)
        has_failed = False
        await lab.kubelet.start()
        await lab.kubelet.until(lab.is_listed, DEADLINE)
        self._lines = line_input
        self._print(lab.agent.status.format_line())
        if lab.terminal is not None and line_input.is_interactive:
            self._print(f"help lists the commands, Tab completes. unplug removes {lab.terminal.path}.")
        while (line := await line_input.read_line()) is not None and line.strip() != "quit":
            if not line.strip():
                continue
            self._since = time.monotonic()
            if not line_input.is_interactive:
                self._print(self._terminal.style(f"{PROMPT}{escape(line.strip())}", "bold"))
            try:
                for answer in await commands.run_line(line):
                    self._print(answer)
            except LabCommandError as error:
                self._print(self._terminal.style(f"✖ {error}", "red"))
                has_failed = has_failed or not line_input.is_interactive
        self._lines = None
        return FAILED if has_failed else 0

    def print_kubelet_event(self, event: KubeletEvent) -> None:
        """Print a kubelet event that users need to see."""
        if event.kind == "list":
            healthy_count, unhealthy_count = event.detail["healthy"], event.detail["unhealthy"]
            self._print_event(f"kubelet: {event.resource}: {healthy_count} Healthy, {unhealthy_count} Unhealthy")
        elif event.kind in _EVENT_TEXTS:
            reason = event.detail.get("message") or event.detail.get("reason")
            self._print_event(f"kubelet: {_EVENT_TEXTS[event.kind]}" + (f": {escape(str(reason))}" if reason else ""))

    def print_log_record(self, record: logging.LogRecord) -> None:
        """Print a log line of the agent."""
        self._print_event(f"agent: {record.getMessage()}")

    def _print_event(self, text: str) -> None:
        if self._lines is None:
            return
        elapsed_ms = (time.monotonic() - self._since) * 1000
        self._print(self._terminal.style(f"  {format_clock(time.monotonic())} +{elapsed_ms:.0f} ms  {text}", "dim"))

    def _print(self, text: str) -> None:
        text = self._terminal.make_displayable(text)
        if self._lines is None:
            print(text, flush=True)
        else:
            self._lines.print(text)


@contextlib.contextmanager
def forward_log(listener: Callable[[logging.LogRecord], None] | None) -> Iterator[None]:
    """Send the agent's log lines to a listener, or discard them without a listener."""

    class LogForwarder(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if listener is not None:
                listener(record)

    log = logging.getLogger("agent")
    handler = LogForwarder(logging.INFO)
    previous_state = log.level, log.propagate
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    log.propagate = False
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(previous_state[0])
        log.propagate = previous_state[1]


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
