"""Show the devices of this host and the resource that takes each of them.

Without DEVICE, print an overview. With DEVICE, print all words for `match`, and the reason why each entry takes the
device or not. DEVICE is /dev/kvm, a link below /dev, 3b:00.0, eth0, a path below /sys, a device ID, or the beginning of
one of these names. The command reads the host. It needs no agent, no kubelet and no root.

-o wide adds columns: parent device, IOMMU group, nodes, serial number and ID. -o name prints one name per line.
-o jsonl prints one JSON object per line. --watch prints the result again after each change.
Exit code 0: success. 4: no device has this name, or several devices have it.
"""

from __future__ import annotations

import argparse
import sys
import time

from agent.cli.host_report.class_entries import compile_shipped_classes
from agent.cli.host_report.device_detail import format_detail
from agent.cli.host_report.device_json import build_device_json
from agent.cli.host_report.device_overview import format_overview, format_summary, select_items
from agent.cli.host_report.device_search import resolve_device
from agent.cli.host_report.host_report import HostReport
from agent.cli.host_report.report_command import run_report
from agent.cli.host_report.scan_host import scan_host
from agent.cli.host_report.word_list import SOURCE_HINTS, build_word_list, format_word_list, parse_source
from agent.cli.host_report.word_list import build_word_list_json as vocabulary_as_json
from agent.cli.output import NO_SUCH_NAME, WRONG_COMMAND_LINE, fail, is_json, print_json
from agent.cli.terminal import Terminal
from agent.config.load import Configuration
from agent.config.toml.finding import find_nearest
from agent.core.language.glob import PatternError
from agent.core.language.safe_text import escape, make_printable
from agent.core.language.value import Absent
from agent.host.root import Root
from agent.scanners import source_kinds

OUTPUTS = ("wide", "json", "jsonl", "name")


def add(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `scan`."""
    parser.add_argument("device", nargs="?", metavar="DEVICE", help="one device: any of its names")
    parser.add_argument("--words", metavar="SOURCE", help="show the words of a source: pci, tty, '/dev/video*'")
    parser.add_argument("--all", action="store_true", help="show all host devices, also devices without an entry")
    parser.add_argument("--watch", action="store_true", help="print the result again after each change, until Ctrl-C")


def run(arguments: argparse.Namespace) -> int:
    """Print the host devices once, or with --watch after each change. Return the exit code."""
    if usage_error := _find_usage_error(arguments):
        return fail(arguments, usage_error, WRONG_COMMAND_LINE)
    return run_report(arguments, _print_answer)


def _find_usage_error(arguments: argparse.Namespace) -> str:
    """Return the fault of the command line, or an empty string."""
    if arguments.device is not None and arguments.words is not None:
        return "use DEVICE or --words SOURCE, not both"
    if arguments.all and (arguments.device is not None or arguments.words is not None):
        return "--all is only for the overview: remove DEVICE and --words"
    if arguments.output == "wide" and (arguments.device is not None or arguments.words is not None):
        return "-o wide is only for the overview: DEVICE and --words always print everything"
    return "" if arguments.device != "" else "DEVICE is empty"


def _print_answer(arguments: argparse.Namespace, root: Root, configuration: Configuration, terminal: Terminal) -> int:
    if arguments.words is not None:
        return _print_words(arguments, root, terminal)
    classes = compile_shipped_classes()
    start_time = time.monotonic()
    report = scan_host(root, configuration.resources, classes, cdi_directories=configuration.settings.paths.cdi)
    if arguments.device is not None:
        return _print_device(arguments, report, configuration, terminal)
    if is_json(arguments):
        print_json([build_device_json(report, item) for item in report.items], arguments)
        return 0
    if arguments.output == "name":
        names = (item.host.name for item in select_items(report, everything=arguments.all))
        print("\n".join(make_printable(name, None) for name in names))
        return 0
    lines = format_overview(report, terminal, everything=arguments.all, wide=arguments.output == "wide")
    summary = format_summary(report, (time.monotonic() - start_time) * 1000, everything=arguments.all)
    missing_lines = [f"missing: {name}: {reason} here" for name, reason in report.missing_devices.items()]
    print("\n".join((*lines, *_format_skipped_paths(report), *missing_lines)))
    if not arguments.watch:
        print(terminal.make_displayable(summary), file=sys.stdout if terminal.width is not None else sys.stderr)
    return 0


def _print_words(arguments: argparse.Namespace, root: Root, terminal: Terminal) -> int:
    """Print the words of one source. Return the exit code."""
    name = arguments.words
    try:
        source = parse_source(root, name)
    except PatternError as error:
        return fail(arguments, f"{name}: {error.message}: {error.write}", WRONG_COMMAND_LINE)
    if source is None and name in SOURCE_HINTS:
        return fail(arguments, f"{name}: {SOURCE_HINTS[name]}", WRONG_COMMAND_LINE)
    if source is None:
        nearest_name = find_nearest(name, [*source_kinds.KINDS, *_list_subsystems(root)])
        hint = f"; nearest: {make_printable(nearest_name, None)}" if nearest_name else ""
        return fail(arguments, f"{name}: no such source on this host{hint}", NO_SUCH_NAME)
    word_list = build_word_list(root, source)
    if is_json(arguments):
        print_json(vocabulary_as_json(word_list), arguments)
    elif arguments.output == "name":
        print("\n".join(entry.name for entry in word_list.entries))
    else:
        print("\n".join(format_word_list(word_list, terminal)))
    return 0


def _list_subsystems(root: Root) -> list[str]:
    """Return the names of the kernel's classes and buses."""
    directories = (root.list_names(f"/sys/{place}") for place in ("class", "bus"))
    return [name for names in directories if not isinstance(names, Absent) for name in names]


def _print_device(
    arguments: argparse.Namespace, report: HostReport, configuration: Configuration, terminal: Terminal
) -> int:
    """Print one device in full. Return the exit code."""
    match = resolve_device(arguments, arguments.device, report, configuration)
    if isinstance(match, int):
        return match
    report, item = match
    if is_json(arguments):
        print_json(build_device_json(report, item), arguments)
    elif arguments.output == "name":
        print(make_printable(item.host.name, None))
    else:
        print("\n".join(format_detail(report, item, terminal)))
    return 0


def _format_skipped_paths(report: HostReport) -> list[str]:
    """Return a line for each path that matched a configured source and is no device."""
    return [
        f"no device: {make_printable(path.path, None)}: {escape(path.reason)}   (source {source})"
        for source, paths in report.skipped_paths.items()
        for path in paths
        if not path.is_alias
    ]
