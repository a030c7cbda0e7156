"""Saying: answers for programs, on standard output; and on standard error why there is no answer."""

from __future__ import annotations

import argparse
import json
import sys

from agent.core.language.safe_text import escape

NO_PERMISSION = 5


def is_json(arguments: argparse.Namespace) -> bool:
    """Whether the answer is for a program."""
    return str(arguments.output).startswith("json")


def print_json(answer: object, arguments: argparse.Namespace) -> None:
    """Print an answer for a program: json over several lines, jsonl on one, of a list a line for each member."""
    if arguments.output == "jsonl":
        for member in answer if isinstance(answer, list) else [answer]:
            print(json.dumps(member))
        sys.stdout.flush()
    else:
        print(json.dumps(answer, indent=1))


def report_file_error(arguments: argparse.Namespace, file: str, error: OSError, code: int) -> int:
    """Say why a file cannot be had; the exit code, which for want of permission is another."""
    reason = f"{file}: {error.strerror or error}"
    return fail(arguments, reason, NO_PERMISSION if isinstance(error, PermissionError) else code)


def fail(arguments: argparse.Namespace, reason: str, code: int) -> int:
    """Say why there is no answer, to a program as JSON; the exit code, which says what kind of reason it is."""
    if is_json(arguments):
        print(json.dumps({"error": reason, "exit": code}), file=sys.stderr)
    else:
        print(f"device-agent {arguments.command}: {escape(reason)}", file=sys.stderr)
    return code
