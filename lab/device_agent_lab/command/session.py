"""The interactive session of the lab: input lines, their answers, and events as they happen."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from agent.cli.terminal import Terminal
from agent.core.language.safe_text import escape
from device_agent_lab.command.lab import Lab
from device_agent_lab.command.lab_commands import LabCommandError, LabCommands
from device_agent_lab.command.line_input import LineInput
from device_agent_lab.simulated.events import KubeletEvent

FAILED = 1
PROMPT = "lab> "
_EVENT_TEXTS = {"listening": "kubelet.sock is there", "stopped": "stopped", "crashed": "crashed"}


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
        await lab.wait_for_kubelet()
        self._lines = line_input
        self._print(lab.agent.status.format_line())
        if lab.terminal is not None and line_input.is_interactive:
            self._print(f"help lists the words, Tab completes. unplug takes {lab.terminal.path} away.")
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
        current_time = time.time()
        clock = f"{time.strftime('%H:%M:%S', time.localtime(current_time))}.{int(current_time * 1000) % 1000:03}"
        self._print(self._terminal.style(f"  {clock} +{elapsed_ms:.0f} ms  {text}", "dim"))

    def _print(self, text: str) -> None:
        text = self._terminal.make_displayable(text)
        if self._lines is None:
            print(text, flush=True)
        else:
            self._lines.print(text)


@contextmanager
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
