"""Watches of the directories where devices, mounts and CDI specs can appear."""

from __future__ import annotations

from agent.core.inventory.dirty_set import DirtySet
from agent.tracker.list_publisher import Publication
from agent.wiring import AgentParts


def publish(parts: AgentParts, publication: Publication) -> None:
    """Watch the directories of the last look, and the directory of the generated CDI specs."""
    del publication
    directories, specs_directory = parts.tracker.directories, parts.generated_specs.directory
    if specs_directory and any(spec.via for spec in parts.tracker.specs):
        directories |= {specs_directory}
    # Changes in these directories since the look that named them were not watched.
    if unseen := parts.path_watch.watch(directories):
        parts.tracker.request_look(DirtySet(unseen))
