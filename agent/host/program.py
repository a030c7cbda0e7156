"""Programs that do work on the host. An error gives the reason if they fail."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping

from agent.core.entry.program import Command
from agent.core.language.safe_text import shorten
from agent.host import process
from agent.host.daemon_thread import run_in_thread

SHOWN = 100  # characters of the last output line in an error


class ProgramError(Exception):
    """A program failed. The text gives the reason and the last line of its output."""


async def run(command: Command, environment: Mapping[str, str] | None = None) -> bool:
    """Run a program until it ends. Return False only if it is optional and does not exist.

    Processes that it leaves behind are killed, see `agent.host.process`.

    Raises:
        ProgramError: it does not exist, cannot be started, ended with a code other than 0, or not in time.
    """
    name = command.argv[0]
    try:
        variables = {**process.ENVIRONMENT, **(environment or {})}
        async with process.run_program(command.argv, command.timeout, variables) as ran:
            if ran.code == 0:
                return True
            ending = (
                f"did not end within {command.timeout:g} s" if ran.code is None else _describe_end(ran.code, ran.ending)
            )
            raise ProgramError(f"{name} {ending}{_format_last_line(ran.output)}")
    except OSError as error:
        if error.errno != errno.ENOENT:
            raise ProgramError(f"{name}: {os.strerror(error.errno or 0)}") from None
        exists = await run_in_thread(os.path.exists, name)
        if command.optional and not exists:
            return False
        raise ProgramError(f"{name}: {'its interpreter' if exists else 'it'} is not there") from None


def _describe_end(code: int, ending: str) -> str:
    return f"ended with {code}" if code > 0 else f"was {ending}"


def _format_last_line(output: str) -> str:
    """Return a colon and the last line that is not blank. The result is empty if there is none."""
    lines = [line for line in output.splitlines() if line.strip()]
    return f": {shorten(lines[-1].strip(), SHOWN)}" if lines else ""
