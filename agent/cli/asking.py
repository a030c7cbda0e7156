"""Asking the agent that runs on this host, for the commands that do."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from agent.config.load import load
from agent.control import Answer, ask
from agent.core.language.printable import escape

NOT_RUNNING = 3
NO_PERMISSION = 5
TIMEOUT_SECONDS = 30.0


def asked(command: str, config: str, request: Mapping[str, Any]) -> Answer | int:
    """What the agent answers; or, when that is said on standard error, the exit code."""
    path = load(config).settings.paths.control
    try:
        answer = ask(path, request, TIMEOUT_SECONDS)
    except (FileNotFoundError, NotADirectoryError, ConnectionRefusedError):
        return _said(command, f"no agent is running: nobody listens at {path}; journalctl -u device-agent", NOT_RUNNING)
    except PermissionError:
        return _said(command, f"{path}: permission denied: only root asks the agent", NO_PERMISSION)
    except TimeoutError:
        return _said(command, f"the agent did not answer within {TIMEOUT_SECONDS:g} s; is it stopping?", NOT_RUNNING)
    except (OSError, ValueError) as error:
        return _said(command, f"{path}: {error}", NOT_RUNNING)
    if "error" in answer:
        return _said(command, str(answer["error"]), 1)
    return answer


def _said(command: str, reason: str, code: int) -> int:
    print(f"device-agent {command}: {escape(reason)}", file=sys.stderr)
    return code
