"""Record this host in one file, for --root and for bug reports.

The file contains the data that sources, classes and the configuration read: names below /sys, /proc, /dev and /run, the
content of the files that were read, and network interfaces. The command opens no device.
With --pseudonymise, serial numbers, UUIDs, MAC addresses and the host name are replaced. Equal values get equal
replacements.
Exit code 0: success. 1: the file exists already, or a write failed. 5: no permission.
"""

from __future__ import annotations

import argparse
import os
import secrets
import time
from collections.abc import Mapping

from agent.cli.host_report.class_entries import compile_shipped_classes
from agent.cli.host_report.device_json import build_device_json
from agent.cli.host_report.scan_host import scan_host
from agent.cli.output import fail, report_file_error
from agent.config.load import load
from agent.core.language.safe_text import escape, format_count
from agent.host.pseudonyms import replace_identifiers
from agent.host.recorder import NOT_RECORDED, Recorder, Recording
from agent.host.recording import write_recording
from agent.scanners.host_words import HOST

WRITE_FAILED = 1


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `record`."""
    parser.add_argument("file", metavar="FILE", help="path of a new file")
    parser.add_argument("--pseudonymise", action="store_true", help="replace values that identify this machine")


def run(arguments: argparse.Namespace) -> int:
    """Read all host devices and write the recording. Return the exit code."""
    if os.path.lexists(arguments.file):
        return fail(arguments, f"{arguments.file} exists already: write the path of a new file", WRITE_FAILED)
    start_time = time.monotonic()
    root = Recorder(arguments.root)
    configuration = load(arguments.config)
    report = scan_host(
        root, configuration.resources, compile_shipped_classes(), cdi_directories=configuration.settings.paths.cdi
    )
    for item in report.items:
        build_device_json(report, item)
    for word in HOST.words if report.items else ():
        report.read_fact(report.items[0], f"host.{word}")
    recording = root.build_recording()
    replacements: Mapping[str, int] = {}
    if arguments.pseudonymise:
        recording, replacements = replace_identifiers(recording, secrets.token_bytes(32))
    try:
        write_recording(recording, arguments.file)
    except OSError as error:
        return report_file_error(arguments, arguments.file, error, WRITE_FAILED)
    _print_summary(recording, replacements if arguments.pseudonymise else None, time.monotonic() - start_time)
    shown_path = escape(arguments.file)
    size = os.path.getsize(arguments.file) / 1024
    print(f"wrote {shown_path}, {size:,.0f} KiB.   try: device-agent --root {shown_path} scan")
    return 0


def _print_summary(recording: Recording, replacements: Mapping[str, int] | None, seconds: float) -> None:
    attributes = format_count(len(recording.contents), "attribute")
    print(f"read {attributes}, {format_count(len(recording.nodes), 'node')} in {seconds:.1f} s; no device was opened")
    unread_count = sum(absent.unreadable and absent != NOT_RECORDED for absent in recording.absent.values())
    notes = [f"left out {format_count(unread_count, 'file')} that could not be read"] if unread_count else []
    if replacements is not None:
        kinds = ", ".join(format_count(count, kind) for kind, count in sorted(replacements.items()))
        notes.append(f"replaced {kinds} (equal stays equal)" if kinds else "nothing was there to replace")
    elif recording.contents:
        notes.append("serial numbers and addresses are in it: --pseudonymise replaces them")
    if notes:
        print("; ".join(notes))
