"""Polling of PodResources."""

from __future__ import annotations

from agent.tracker.list_publisher import Publication
from agent.wiring import AgentParts


def publish(parts: AgentParts, publication: Publication) -> None:
    """Start or stop the polling of PodResources."""
    del publication
    parts.update_polling()
