"""Asking the agent that runs on this host, for the commands that do."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from agent.cli.output import NO_PERMISSION, fail
from agent.config.agent_toml import read_agent_toml
from agent.config.toml.files import ConfigFiles
from agent.control.control_socket import MAX_CLIENTS, ControlAnswer, query_agent

BUSY = 1
NOT_RUNNING = 3


class AgentUnreachable(NamedTuple):
    """Why no agent answers: the gist, the detail, and the exit code that reports it."""

    gist: str
    detail: str
    code: int

    @property
    def reason(self) -> str:
        """The gist with the detail."""
        return f"{self.gist}: {self.detail}"


def ask_agent(
    arguments: argparse.Namespace, request: Mapping[str, Any], *, wait_seconds: float = 0.0, refusal_code: int = 1
) -> ControlAnswer | int:
    """What the agent answers; or, when that is said on standard error, the exit code.

    waiting: so many seconds the agent may let pass before it has something to answer. refused: the exit code where it
    says why there is no answer.
    """
    answer = send_request(find_control_socket(arguments), request, wait_seconds + arguments.timeout)
    if isinstance(answer, AgentUnreachable):
        return fail(arguments, answer.reason, answer.code)
    if "error" in answer:
        return fail(arguments, str(answer["error"]), refusal_code)
    return answer


def find_control_socket(arguments: argparse.Namespace) -> str:
    """Where the agent of this configuration listens; of that only agent.toml is read."""
    return read_agent_toml(ConfigFiles(os.path.abspath(arguments.config)), []).paths.control


def send_request(path: str, request: Mapping[str, Any], timeout: float) -> ControlAnswer | AgentUnreachable:
    """What the agent behind a control socket answers, or why none does."""
    try:
        return query_agent(path, request, timeout)
    except (FileNotFoundError, NotADirectoryError, ConnectionRefusedError):
        return AgentUnreachable(
            "no agent is running", f"nobody listens at {path}; systemctl status device-agent", NOT_RUNNING
        )
    except PermissionError:
        return AgentUnreachable("only root asks the agent", f"{path}: permission denied", NO_PERMISSION)
    except TimeoutError:
        return AgentUnreachable(f"the agent did not answer within {timeout:g} s", "is it stopping?", NOT_RUNNING)
    except (BrokenPipeError, ConnectionResetError):
        return AgentUnreachable("the agent is busy", f"{MAX_CLIENTS} others ask it already; ask again", BUSY)
    except (OSError, ValueError) as error:
        return AgentUnreachable("no agent answers", f"{path}: {error}", NOT_RUNNING)
