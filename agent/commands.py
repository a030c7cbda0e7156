"""What a running agent is asked by commands, and what it answers: the other side of the control socket."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agent.config.finding import as_json, render
from agent.configured import Configured, Outcome
from agent.control import Answer, Answering


def commands(configured: Configured) -> Mapping[str, Answering]:
    """The requests that an agent answers, by name."""

    async def reload(request: Mapping[str, Any]) -> Answer:
        outcome = await (configured.rehearse() if request.get("dry_run") is True else configured.reload())
        return reloaded(outcome)

    return {"reload": reload}


def reloaded(outcome: Outcome) -> Answer:
    """A reload as JSON."""
    change = outcome.difference
    names = (
        {}
        if change is None
        else {
            "unchanged": list(change.unchanged),
            "changed": [*change.changed, *change.moved],
            "added": list(change.added),
            "removed": list(change.removed),
        }
    )
    return {
        "before": outcome.before,
        "after": outcome.after,
        "refused": outcome.refused or None,
        "resources": names,
        "findings": [{**as_json(finding), "text": render(finding)} for finding in outcome.findings],
        "seconds": round(outcome.seconds, 3),
    }
