"""Queries to programs, services and probes."""

from __future__ import annotations

from agent.tracker.list_publisher import Publication
from agent.wiring import AgentParts


def publish(parts: AgentParts, publication: Publication) -> None:
    """End the queries and probes that no device needs after this look."""
    del publication
    parts.query_results.finish_look(parts.tracker)
