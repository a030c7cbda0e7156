"""Client functions for commands that send requests to the running agent."""

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
    """The reason why no agent answers: the gist, the detail, and the exit code for it."""

    gist: str
    detail: str
    code: int

    @property
    def reason(self) -> str:
        """The gist and the detail as one text."""
        return f"{self.gist}: {self.detail}"


def ask_agent(
    arguments: argparse.Namespace, request: Mapping[str, Any], *, wait_seconds: float = 0.0, refusal_code: int = 1
) -> ControlAnswer | int:
    """Send a request to the agent and return the answer.

    On failure, print the reason to stderr and return the exit code.

    wait_seconds: time in seconds that the agent may wait before it answers. refusal_code: the exit code if the agent
    answers with an error.
    """
    answer = send_request(find_control_socket(arguments), request, wait_seconds + arguments.timeout)
    if isinstance(answer, AgentUnreachable):
        return fail(arguments, answer.reason, answer.code)
    if "error" in answer:
        return fail(arguments, str(answer["error"]), refusal_code)
    return answer


def find_control_socket(arguments: argparse.Namespace) -> str:
    """Return the path of the agent's control socket. Reads only agent.toml of the configuration."""
    return read_agent_toml(ConfigFiles(os.path.abspath(arguments.config)), []).paths.control


def send_request(path: str, request: Mapping[str, Any], timeout: float) -> ControlAnswer | AgentUnreachable:
    """Send a request to a control socket. Return the answer, or the reason why no agent answers."""
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
