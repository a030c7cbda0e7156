"""What pods hold, as the agent that runs on this machine knows it."""

from __future__ import annotations

from agent.cli.agent_client import AgentUnreachable, send_request
from agent.host.root import Root

ANSWER_SECONDS = 2.0


def request_held_ids(control: str, root: Root, resource: str) -> frozenset[str] | None:
    """The ids of a resource that pods have, or may; None if no agent that looks at this machine can be asked.

    control: the path of its socket.
    """
    answer = send_request(control, {"do": "explain", "name": resource}, ANSWER_SECONDS)
    if isinstance(answer, AgentUnreachable) or "error" in answer or answer.get("root") != (root.prefix or "/"):
        return None
    ids: set[str] = set()
    for one in (answer["resource"] or {"devices": ()})["devices"]:
        known = [id for holder in one["held_by"] for id in holder["ids"]]  # noqa: A001  the API's own word
        ids.update(known or ([one["id"]] if one["may_be_held"] else []))
    return frozenset(ids)
