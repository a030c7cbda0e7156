"""The open lab: a line in, its answer out, and what happens beside that as it happens."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from agent.cli.lab.lab import Lab
from agent.cli.lab.lab_commands import LabCommands, Wrong
from agent.cli.lab.line_input import LineInput
from agent.cli.terminal import Terminal
from agent.core.language.safe_text import escape
from agent.kubelet.simulated.events import KubeletEvent

FAILED = 1
PROMPT = "lab> "
_TOLD = {"listening": "kubelet.sock is there", "stopped": "stopped", "crashed": "crashed"}


class Session:
    """One person at one lab."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._since = time.monotonic()
        self._lines: LineInput | None = None

    async def run(self, lab: Lab) -> int:
        """Start the kubelet, then do line after line until there is none; 1 if a line from a pipe went wrong."""
        words = LabCommands(lab, self._terminal)
        lines = LineInput(PROMPT, words.following)
        failed = False
        await lab.kubelet.start()
        await lab.settled()
        self._lines = lines
        self._say(lab.agent.status.format_line())
        if lab.terminal is not None and lines.interactive:
            self._say(f"help lists the words, Tab completes. unplug takes {lab.terminal.path} away.")
        while (line := await lines.next()) is not None and line.strip() != "quit":
            if not line.strip():
                continue
            self._since = time.monotonic()
            if not lines.interactive:
                self._say(self._terminal.style(f"{PROMPT}{escape(line.strip())}", "bold"))
            try:
                for answer in await words.do(line):
                    self._say(answer)
            except Wrong as wrong:
                self._say(self._terminal.style(f"✖ {wrong}", "red"))
                failed = failed or not lines.interactive
        self._lines = None
        return FAILED if failed else 0

    def heard(self, event: KubeletEvent) -> None:
        """Say what happened in the kubelet, if it is worth a line."""
        if event.kind == "list":
            healthy, unhealthy = event.detail["healthy"], event.detail["unhealthy"]
            self._happened(f"kubelet: {event.resource}: {healthy} Healthy, {unhealthy} Unhealthy")
        elif event.kind in _TOLD:
            reason = event.detail.get("message") or event.detail.get("reason")
            self._happened(f"kubelet: {_TOLD[event.kind]}" + (f": {escape(str(reason))}" if reason else ""))

    def logged(self, record: logging.LogRecord) -> None:
        """Say what the agent logs."""
        self._happened(f"agent: {record.getMessage()}")

    def _happened(self, text: str) -> None:
        if self._lines is None:
            return
        after = (time.monotonic() - self._since) * 1000
        now = time.time()
        clock = f"{time.strftime('%H:%M:%S', time.localtime(now))}.{int(now * 1000) % 1000:03}"
        self._say(self._terminal.style(f"  {clock} +{after:.0f} ms  {text}", "dim"))

    def _say(self, text: str) -> None:
        text = self._terminal.text(text)
        if self._lines is None:
            print(text, flush=True)
        else:
            self._lines.print(text)


@contextmanager
def logged(listener: Callable[[logging.LogRecord], None] | None) -> Iterator[None]:
    """Give the agent's log lines to a listener, or to nobody."""

    class Heard(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if listener is not None:
                listener(record)

    log = logging.getLogger("agent")
    handler = Heard(logging.INFO)
    before = log.level, log.propagate
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    log.propagate = False
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(before[0])
        log.propagate = before[1]
