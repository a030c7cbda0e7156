"""The query of `health.NAME.run`: a program that must end with exit code 0."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator

from agent.core.entry.query import ProgramQuery, QueryResult, QueryStatus
from agent.host.process import run_program


async def ask(command: ProgramQuery) -> AsyncGenerator[QueryResult, None]:
    """Yield the result of a program. The generator ends when the program has ended.

    Exit code 0 means pass, and any other end means fail. A program that cannot be started or does not end in time has
    no result.
    """
    try:
        async with run_program(command.argv, command.timeout) as ran:
            yield _make_result(command, ran.code, ran.ending, ran.output)
    except OSError as error:
        yield QueryResult(QueryStatus.UNKNOWN, f"{command.argv[0]}: {os.strerror(error.errno or 0)}")


def _make_result(command: ProgramQuery, code: int | None, ending: str, output: str) -> QueryResult:
    if code == 0:
        return QueryResult(QueryStatus.HEALTHY)
    if code is None:
        ending = f"no end within {command.timeout:g} s"
    text = " ".join(output.split())
    program = command.argv[0].rpartition("/")[2]
    reason = f"{program}: {ending}{f': {text}' if text else ''}"
    return QueryResult(QueryStatus.UNKNOWN if code is None else QueryStatus.UNHEALTHY, reason, timed_out=code is None)
