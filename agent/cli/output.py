"""Output of commands: answers for programs on stdout, failures on stderr."""

from __future__ import annotations

import argparse
import json
import sys

from agent.core.language.safe_text import escape

# Exit codes that several commands have.
WRONG_COMMAND_LINE = 2
NO_SUCH_NAME = 4
NO_PERMISSION = 5


def is_json(arguments: argparse.Namespace) -> bool:
    """Return whether the answer is for a program."""
    return str(arguments.output).startswith("json")


def print_json(answer: object, arguments: argparse.Namespace) -> None:
    """Print an answer for a program.

    `json` prints several lines. `jsonl` prints one line, or for a list one line for each member.
    """
    if arguments.output == "jsonl":
        for member in answer if isinstance(answer, list) else [answer]:
            print(json.dumps(member))
        sys.stdout.flush()
    else:
        print(json.dumps(answer, indent=1))


def report_file_error(arguments: argparse.Namespace, file: str, error: OSError, code: int) -> int:
    """Print why a file operation failed. Return `code`, or NO_PERMISSION if the permission is missing."""
    reason = f"{file}: {error.strerror or error}"
    return fail(arguments, reason, NO_PERMISSION if isinstance(error, PermissionError) else code)


def fail(arguments: argparse.Namespace, reason: str, code: int) -> int:
    """Print why there is no answer, for programs as JSON. Return `code`, the exit code for this kind of reason."""
    if is_json(arguments):
        print(json.dumps({"error": reason, "exit": code}), file=sys.stderr)
    else:
        print(f"device-agent {arguments.command}: {escape(reason)}", file=sys.stderr)
    return code
