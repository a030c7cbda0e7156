"""Nodes and mounts of a container by container path, and the container edits of CDI (`containerEdits`)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from agent.core.entry.generated_cdi import Edits
from agent.core.grants.grant import GrantedMount, GrantedNode


class ContainerPaths:
    """Nodes and mounts. Each has a container path of its own."""

    def __init__(self) -> None:
        self._items: dict[str, GrantedNode | GrantedMount] = {}

    @property
    def nodes(self) -> list[GrantedNode]:
        """The nodes."""
        return [item for item in self._items.values() if isinstance(item, GrantedNode)]

    @property
    def mounts(self) -> list[GrantedMount]:
        """The mounts."""
        return [item for item in self._items.values() if isinstance(item, GrantedMount)]

    def add(self, item: GrantedNode | GrantedMount) -> str:
        """Add a node or a mount; equal ones count once. Return the conflict, or an empty string."""
        earlier = self._items.setdefault(item.container, item)
        if (text := _format_item(earlier)) != _format_item(item):
            return f"{item.container} would be both {text} and {_format_item(item)}"
        return ""


def build_container_edits(
    nodes: Iterable[GrantedNode], mounts: Iterable[GrantedMount], env: Mapping[str, str]
) -> Edits:
    """Return the edits of nodes, mounts and variables, without empty sections.

    Type and number of a node are left out: the runtime reads them from the node when a container starts. It creates no
    node if the path is not a node then.
    """
    sections: dict[str, list[Any]] = {
        "env": [f"{name}={text}" for name, text in env.items()],
        "deviceNodes": [
            {
                "path": node.container,
                **({"hostPath": node.host} if node.host != node.container else {}),
                "permissions": node.permissions,
            }
            for node in nodes
        ],
        "mounts": [
            {
                "hostPath": mount.host,
                "containerPath": mount.container,
                "options": ["rbind", "rprivate", "ro" if mount.read_only else "rw"],
            }
            for mount in mounts
        ],
    }
    return {section: items for section, items in sections.items() if items}


def is_unicode(edits: Edits) -> bool:
    """Return whether all texts are Unicode. A path can contain other bytes."""
    try:
        json.dumps(edits, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def _format_item(item: GrantedNode | GrantedMount) -> str:
    if isinstance(item, GrantedNode):
        return f"{item.host} {item.permissions}"
    return f"{item.host} {'read-only' if item.read_only else 'to write'}"
