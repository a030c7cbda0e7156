"""The saved state for the next start."""

from __future__ import annotations

from agent.tracker.list_publisher import Publication
from agent.wiring import AgentParts


def publish(parts: AgentParts, publication: Publication) -> None:
    """Save the state."""
    del publication
    parts.save_state()
