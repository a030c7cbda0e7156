"""Asking the agent that runs on this host, for the commands that do."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any, NamedTuple

from agent.cli.saying import refuse
from agent.config.load import load
from agent.control.control import Answer, ask

NOT_RUNNING = 3
NO_PERMISSION = 5


class Unreachable(NamedTuple):
    """Why no agent answers, the gist before a colon, and the exit code that says so."""

    reason: str
    code: int


def asked(arguments: argparse.Namespace, request: Mapping[str, Any], waiting: float = 0.0) -> Answer | int:
    """What the agent answers; or, when that is said on standard error, the exit code.

    waiting: so many seconds the agent may let pass before it has something to answer.
    """
    answer = reached(load(arguments.config).settings.paths.control, request, waiting + arguments.timeout)
    if isinstance(answer, Unreachable):
        return refuse(arguments, answer.reason, answer.code)
    if "error" in answer:
        return refuse(arguments, str(answer["error"]), 1)
    return answer


def reached(path: str, request: Mapping[str, Any], timeout: float) -> Answer | Unreachable:
    """What the agent behind a control socket answers, or why none does."""
    try:
        return ask(path, request, timeout)
    except (FileNotFoundError, NotADirectoryError, ConnectionRefusedError):
        return Unreachable(f"no agent is running: nobody listens at {path}; systemctl status device-agent", NOT_RUNNING)
    except PermissionError:
        return Unreachable(f"only root asks the agent: {path}: permission denied", NO_PERMISSION)
    except TimeoutError:
        return Unreachable(f"the agent did not answer within {timeout:g} s: is it stopping?", NOT_RUNNING)
    except (OSError, ValueError) as error:
        return Unreachable(f"no agent answers: {path}: {error}", NOT_RUNNING)
