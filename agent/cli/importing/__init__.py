"""Convert the configuration of another device plugin to TOML entries.

PROGRAM is squat (generic-device-plugin), smarter (smarter-device-manager), sriov (sriov-network-device-plugin) or
kubevirt (permittedHostDevices of a KubeVirt resource). FILE is its configuration, or a Kubernetes manifest with the
configuration. - is standard input. The TOML goes to standard output. Changes in behaviour go to standard error.

Exit code 0: everything was imported. 1: a part was not imported, and is a comment in the TOML. 4: FILE does not exist.
5: no permission.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence

from agent.cli.importing.foreign_file import ForeignFileError, parse_documents
from agent.cli.importing.toml_entry import ImportedEntry
from agent.cli.output import NO_SUCH_NAME, fail, report_file_error
from agent.core.language.safe_text import count_columns, escape

PROGRAMS = ("squat", "smarter", "sriov", "kubevirt")
INCOMPLETE = 1


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `import`."""
    parser.add_argument("program", choices=PROGRAMS, metavar="PROGRAM", help=", ".join(PROGRAMS))
    parser.add_argument("file", metavar="FILE", help="its configuration or manifest; - for standard input")


def run(arguments: argparse.Namespace) -> int:
    """Print the entries on standard output and the changes on standard error. Return the exit code."""
    try:
        text = _read_file(arguments.file)
    except OSError as error:
        return report_file_error(arguments, arguments.file, error, NO_SUCH_NAME)
    except UnicodeDecodeError:
        return fail(arguments, f"{arguments.file}: it is not UTF-8", INCOMPLETE)
    try:
        module = importlib.import_module(f"agent.cli.importing.{arguments.program}")
        entries: list[ImportedEntry] = module.import_entries(parse_documents(text))
        if not entries:
            raise ForeignFileError(module.NOT_FOUND)
    except ForeignFileError as error:
        return fail(arguments, f"{arguments.file}: {error}", INCOMPLETE)
    print("\n\n".join(entry.format_toml() for entry in entries))
    sys.stdout.flush()
    for line in _format_summary(entries):
        print(line, file=sys.stderr)
    return 0 if all(entry.tables for entry in entries) else INCOMPLETE


def _read_file(file: str) -> str:
    if file == "-":
        return sys.stdin.read()
    with open(file, encoding="utf-8-sig") as stream:
        return stream.read()


def _format_summary(entries: Sequence[ImportedEntry]) -> list[str]:
    """Return a line for each imported resource, and the next step."""
    labels = [escape(entry.label) for entry in entries]
    width = max(map(count_columns, labels), default=0)
    lines: list[str] = []
    for label, entry in zip(labels, entries, strict=True):
        notes = list(dict.fromkeys((*entry.changes, *(f"CHECK: {check}" for check in entry.checks))))
        if not entry.tables:
            notes.append("not taken over")
        head = f"{label}{' ' * (width - count_columns(label))}  line {entry.line:<4} "
        lines.append(f"{head}{escape('; '.join(notes) or 'as it was')}")
    imported_count = sum(bool(entry.tables) for entry in entries)
    check_count = sum(bool(entry.checks) for entry in entries)
    total = f"{imported_count} of {len(entries)} taken over"
    total += f", {check_count} to check (marked CHECK in the TOML)" if check_count else ""
    return [*lines, f"{total}.   next: device-agent check"]
