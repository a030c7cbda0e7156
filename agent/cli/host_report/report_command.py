"""Print a report about this host, once or after each change."""

from __future__ import annotations

import argparse
import asyncio
import io
import json
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, redirect_stderr, redirect_stdout, suppress
from typing import TypeAlias

from agent.cli.host_report.scan_host import list_dev_directories
from agent.cli.terminal import Terminal
from agent.config.load import Configuration, load
from agent.config.toml.finding import Severity
from agent.core.inventory.dirty_set import DirtySet
from agent.core.language.safe_text import format_count
from agent.core.struct import MutableStruct
from agent.host.inotify import PathWatch
from agent.host.link_events import watch_link_events
from agent.host.root import Root
from agent.host.uevents import watch_uevents
from agent.scanners import source_kinds

_AGE = re.compile(r" \(\d+ (?:s|min|h|d)(?: \d+ (?:s|min|h))?\)")


class WatchOutput(MutableStruct):
    """Prints a report again, or its changes.

    by_line: each line is an object. Only new and removed lines are printed.
    """

    by_line: bool
    _previous_text: str = ""

    def print_changes(self, text: str) -> None:
        """Print a report if it is new. A report that differs only in ages is not new."""
        ageless_text = _AGE.sub("", text)
        if ageless_text == self._previous_text:
            return
        output = (
            "".join(self._find_changes(ageless_text))
            if self.by_line
            else text
            if not self._previous_text
            else f"\n{text}"
        )
        self._previous_text = ageless_text
        sys.stdout.write(output)
        sys.stdout.flush()

    def _find_changes(self, new: str) -> Iterator[str]:
        old_lines, new_lines = self._previous_text.splitlines(), new.splitlines()
        old_set, names = frozenset(old_lines), {_get_subject(line) for line in new_lines}
        yield from (f"{line}\n" for line in new_lines if line not in old_set)
        yield from (f"{_format_removal(line)}\n" for line in old_lines if _get_subject(line) not in names)


def run_watch_mode(
    root: Root, load_configuration: Callable[[], Configuration], print_report: Callable[[], object], *, by_line: bool
) -> int:
    """Print the report until Ctrl-C and return 0. `print_report` writes to the current standard output."""
    asyncio.run(_watch(root, load_configuration, print_report, WatchOutput(by_line)))
    return 0


async def _watch(
    root: Root, load_configuration: Callable[[], Configuration], print_report: Callable[[], object], output: WatchOutput
) -> None:
    change = asyncio.Event()

    def on_dirty(_: DirtySet) -> None:
        change.set()

    def on_write(_: frozenset[str], _overrun: bool) -> None:  # noqa: FBT001  the watch's signature
        change.set()

    async with AsyncExitStack() as stack:
        if not root.prefix:
            await stack.enter_async_context(watch_link_events(root, on_dirty))
            await stack.enter_async_context(watch_uevents(on_dirty))
        host = await stack.enter_async_context(PathWatch(root, on_write, written=True))
        files = await stack.enter_async_context(PathWatch(Root("/"), on_write, written=True))
        while True:
            change.clear()
            configuration = load_configuration()
            look_settings, paths = configuration.settings.look, configuration.settings.paths
            sources = {source for spec in configuration.resources for source in spec.sources}
            host.watch(source_kinds.list_watched_directories(root, sources) | list_dev_directories(root))
            files.watch(frozenset({paths.resources, *paths.classes}))
            start_time = time.perf_counter()
            output.print_changes(await asyncio.to_thread(_capture_output, print_report))
            duration = time.perf_counter() - start_time
            with suppress(TimeoutError):
                async with asyncio.timeout(look_settings.rescan_interval):
                    await change.wait()
            # Changes within the debounce time are one report, and a file is complete when the report reads it.
            # In a storm of changes, at least half of the time is idle.
            await asyncio.sleep(max(look_settings.debounce_time, duration))


def _capture_output(print_report: Callable[[], object]) -> str:
    """Return the output of a report, with the text on standard error."""
    text = io.StringIO()
    with redirect_stdout(text), redirect_stderr(text):
        print_report()
    return text.getvalue()


def _get_subject(line: str) -> str:
    """Return the subject of a line. The subject stays the same while other values change."""
    json_object = _parse_object(line)
    return (
        line
        if json_object is None
        else f"{json_object.get('source')} {json_object.get('name', json_object.get('resource'))}"
    )


def _format_removal(line: str) -> str:
    json_object = _parse_object(line)
    return f"gone: {line}" if json_object is None else json.dumps({**json_object, "gone": True})


def _parse_object(line: str) -> dict[str, object] | None:
    if not line.startswith("{"):
        return None
    json_object: dict[str, object] = json.loads(line)
    return json_object


ReportPrinter: TypeAlias = Callable[[argparse.Namespace, Root, Configuration, Terminal], int]


def run_report(arguments: argparse.Namespace, print_report: ReportPrinter) -> int:
    """Print the report and return the exit code. With `--watch`, print each new report until Ctrl-C."""
    root = Root(arguments.root)
    terminal = Terminal.detect(sys.stdout, colour=arguments.color, utc=arguments.utc)
    configuration = load(arguments.config)
    warn_of_config_errors(configuration, arguments.config)
    if not arguments.watch:
        return print_report(arguments, root, configuration, terminal)

    def reload_and_print() -> None:
        print_report(arguments, root, load(arguments.config), terminal)

    by_line = arguments.output in {"jsonl", "name"}
    return run_watch_mode(root, lambda: load(arguments.config), reload_and_print, by_line=by_line)


def warn_of_config_errors(configuration: Configuration, directory: str) -> None:
    """Print on standard error which part of the configuration is left out."""
    errors = [finding for finding in configuration.findings if finding.severity is Severity.ERROR]
    if errors:
        files = len({finding.file for finding in errors})
        print(
            f"{format_count(len(errors), 'error')} in {format_count(files, 'file')}, left out: "
            f"device-agent check --config {directory}",
            file=sys.stderr,
        )
    elif not configuration.files:
        print(f"{directory} configures no resource: the output shows matching classes", file=sys.stderr)
