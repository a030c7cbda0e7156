"""Devices in use, from the agent on this machine."""

from __future__ import annotations

from agent.cli.agent_client import AgentUnreachable, send_request
from agent.host.root import Root

ANSWER_SECONDS = 2.0


def request_held_ids(control: str, root: Root, resource: str) -> frozenset[str] | None:
    """Return the IDs of a resource that pods use or may use. Return None if no agent that looks at this host answers.

    control: path of the control socket.
    """
    answer = send_request(control, {"do": "explain", "name": resource}, ANSWER_SECONDS)
    if isinstance(answer, AgentUnreachable) or "error" in answer or answer.get("root") != (root.prefix or "/"):
        return None
    ids: set[str] = set()
    for device in (answer["resource"] or {"devices": ()})["devices"]:
        held_ids = [id for holder in device["held_by"] for id in holder["ids"]]  # noqa: A001  the API's own word
        ids.update(held_ids or ([device["id"]] if device["may_be_held"] else []))
    return frozenset(ids)
