"""Following: an answer about this host said again whenever it is another, by the events that the agent goes by.

Kernel events (of devices, links, routes) on this host, inotify below /dev, in the directories of the configuration and
wherever else a source has no event; what none of these tells is seen by the sweep. In a tree there is inotify alone.
"""

from __future__ import annotations

import asyncio
import io
import json
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, redirect_stderr, redirect_stdout, suppress

from agent.cli.host_report.scan_host import list_dev_directories
from agent.config.load import Configuration
from agent.core.inventory.dirty_set import DirtySet
from agent.core.struct import MutableStruct
from agent.host.inotify import PathWatch
from agent.host.link_events import watch_link_events
from agent.host.root import Root
from agent.host.uevents import watch_uevents
from agent.scanners import source_kinds

_AGE = re.compile(r" \(\d+ (?:s|min|h|d)(?: \d+ (?:s|min|h))?\)")


class WatchOutput(MutableStruct):
    """Says an answer, and what is new of it.

    lines: of the answer a line is one thing, so that only those are said that are new, and those that went.
    """

    by_line: bool
    _last: str = ""

    def print_changes(self, text: str) -> None:
        """Print what is new. That only time went by is nothing new."""
        new = _AGE.sub("", text)
        if new == self._last:
            return
        said = "".join(self._changed(new)) if self.by_line else text if not self._last else f"\n{text}"
        self._last = new
        sys.stdout.write(said)
        sys.stdout.flush()

    def _changed(self, new: str) -> Iterator[str]:
        old, now = self._last.splitlines(), new.splitlines()
        was, names = frozenset(old), {_name(line) for line in now}
        yield from (f"{line}\n" for line in now if line not in was)
        yield from (f"{_gone(line)}\n" for line in old if _name(line) not in names)


def run_watch_mode(
    root: Root, configured: Callable[[], Configuration], answer: Callable[[], object], *, by_line: bool
) -> int:
    """Say it until Ctrl-C; `answer` prints, on whatever is standard output at that moment."""
    asyncio.run(_follow(root, configured, answer, WatchOutput(by_line)))
    return 0


async def _follow(
    root: Root, configured: Callable[[], Configuration], answer: Callable[[], object], following: WatchOutput
) -> None:
    stirred = asyncio.Event()

    def touched(_: DirtySet) -> None:
        stirred.set()

    def written(_: frozenset[str], _lost: bool) -> None:  # noqa: FBT001  the watch's signature
        stirred.set()

    async with AsyncExitStack() as stack:
        if not root.prefix:
            await stack.enter_async_context(watch_link_events(root, touched))
            await stack.enter_async_context(watch_uevents(touched))
        host = await stack.enter_async_context(PathWatch(root, written, written=True))
        files = await stack.enter_async_context(PathWatch(Root("/"), written, written=True))
        while True:
            stirred.clear()
            configuration = configured()
            look, paths = configuration.settings.look, configuration.settings.paths
            sources = {source for spec in configuration.resources for source in spec.sources}
            host.watch(source_kinds.list_watched_directories(root, sources) | list_dev_directories(root))
            files.watch(frozenset({paths.resources, *paths.classes}))
            began = time.perf_counter()
            following.print_changes(await asyncio.to_thread(_told, answer))
            took = time.perf_counter() - began
            with suppress(TimeoutError):
                async with asyncio.timeout(look.rescan_interval):
                    await stirred.wait()
            # What comes together is one answer, and a file that is written is whole. Half of a storm is idle time.
            await asyncio.sleep(max(look.debounce_time, took))


def _told(answer: Callable[[], object]) -> str:
    """What an answer prints; what it says of why there is none is a part of it."""
    text = io.StringIO()
    with redirect_stdout(text), redirect_stderr(text):
        answer()
    return text.getvalue()


def _name(line: str) -> str:
    """What a line is about, which stays while the rest changes."""
    said = _object(line)
    return line if said is None else f"{said.get('source')} {said.get('name', said.get('resource'))}"


def _gone(line: str) -> str:
    said = _object(line)
    return f"gone: {line}" if said is None else json.dumps({**said, "gone": True})


def _object(line: str) -> dict[str, object] | None:
    if not line.startswith("{"):
        return None
    said: dict[str, object] = json.loads(line)
    return said
