"""Print a report about this host, once or after each change."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import TypeAlias

from agent.cli.host_report.watch_mode import run_watch_mode
from agent.cli.terminal import Terminal
from agent.config.load import Configuration, load
from agent.config.toml.finding import Severity
from agent.core.language.safe_text import format_count
from agent.host.root import Root

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
            f"{format_count(len(errors), 'error')} in {format_count(files, 'file')}, left out here: "
            f"device-agent check --config {directory}",
            file=sys.stderr,
        )
    elif not configuration.files:
        print(f"nothing is configured in {directory}: classes that would fit are shown", file=sys.stderr)
