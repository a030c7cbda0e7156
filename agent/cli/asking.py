"""Asking the agent that runs on this host, for the commands that do."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, NamedTuple

from agent.config.load import load
from agent.control import Answer, ask
from agent.core.language.printable import escape

NOT_RUNNING = 3
NO_PERMISSION = 5
TIMEOUT_SECONDS = 30.0


class Unreachable(NamedTuple):
    """Why no agent answers, the gist before a colon, and the exit code that says so."""

    reason: str
    code: int


def asked(command: str, config: str, request: Mapping[str, Any]) -> Answer | int:
    """What the agent answers; or, when that is said on standard error, the exit code."""
    answer = reached(load(config).settings.paths.control, request)
    if isinstance(answer, Unreachable):
        return _said(command, answer.reason, answer.code)
    if "error" in answer:
        return _said(command, str(answer["error"]), 1)
    return answer


def reached(path: str, request: Mapping[str, Any], timeout: float = TIMEOUT_SECONDS) -> Answer | Unreachable:
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


def _said(command: str, reason: str, code: int) -> int:
    print(f"device-agent {command}: {escape(reason)}", file=sys.stderr)
    return code
