"""Check the configuration with the rules of `run`, print all errors at once, and warn about entries on this host.

--root replaces this host by a directory tree or a recording. Several --root check one configuration for several kinds
of node. --aloud prints the description of each class and entry first, each clause with its file and line.
Exit code 0: no finding, or only warnings. 1: errors, or with --strict warnings. 4: nothing has the NAME.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from agent.cli.host_report.host_findings import find_host_findings
from agent.cli.host_report.scan_host import scan_host
from agent.cli.output import fail, is_json, print_json
from agent.cli.terminal import Terminal
from agent.config.describe.descriptions import Description, NoDescriptionError, find_descriptions
from agent.config.describe.descriptions import convert_to_json as reading_as_json
from agent.config.describe.text_layout import render_description as read
from agent.config.load import load_with_entries
from agent.config.toml.finding import Severity, build_json, format_check_summary, render, sort_findings
from agent.core.language.safe_text import format_count
from agent.host.root import Root

NO_SUCH_NAME = 4
OUTPUTS = ("json", "jsonl")
SEVERAL_ROOTS = True


def add(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `check`."""
    parser.add_argument("--strict", action="store_true", help="treat warnings as errors")
    parser.add_argument(
        "--aloud", nargs="*", metavar="NAME", help="print the description of resources, classes and entries (file:line)"
    )


def run(arguments: argparse.Namespace) -> int:
    """Print the findings and the summary. Return the exit code."""
    loaded = load_with_entries(arguments.config)
    configuration = loaded.configuration
    findings = configuration.findings
    descriptions: list[Description] = []
    if arguments.aloud is not None:
        try:
            descriptions = find_descriptions(loaded, arguments.aloud)
        except NoDescriptionError as error:
            nearest_name = f"; nearest: {error.nearest}" if error.nearest else ""
            return fail(
                arguments, f"{error.name}: no resource, entry or class has this name{nearest_name}", NO_SUCH_NAME
            )
    hosts: list[str] = []
    for name, root in arguments.roots.items() if arguments.aloud is None else ():
        host_name = "this host" if root == "/" else os.path.basename(name.rstrip("/"))
        report = scan_host(
            Root(root), configuration.resources, cdi_directories=configuration.settings.paths.cdi, all_sources=False
        )
        findings = (*findings, *find_host_findings(loaded.entries, report, host_name))
        device_count = sum(len(device) for device_list in report.lists.values() for device in device_list)
        hosts.append(f"{format_count(device_count, 'device')} on {host_name}")
    findings = tuple(sort_findings(findings))
    if is_json(arguments):
        json_values = map(build_json, findings) if arguments.aloud is None else map(reading_as_json, descriptions)
        print_json([*json_values], arguments)
    else:
        print_descriptions(descriptions, Terminal.detect(sys.stdout, colour=arguments.color, utc=arguments.utc))
        for finding in findings:
            print(render(finding))
        served = format_count(len(configuration.resources), "resource")
        print(format_check_summary(findings, len(configuration.files), ", ".join((served, *hosts))))
    serious_findings = findings if arguments.strict else [f for f in findings if f.severity is Severity.ERROR]
    return 1 if serious_findings else 0


def print_descriptions(descriptions: Sequence[Description], terminal: Terminal) -> None:
    """Print descriptions, with an empty line after each description."""
    for description in descriptions:
        title, *lines = read(description, terminal.width)
        print(terminal.style(terminal.make_displayable(title), "bold"))
        for line in (*lines, ""):
            print(terminal.make_displayable(line))
