"""Container edits of a grant, as CDI defines them (`containerEdits`)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from agent.core.entry.generated_cdi import Edits
from agent.core.grants.grant import GrantedMount, GrantedNode


def build_container_edits(
    nodes: Iterable[GrantedNode], mounts: Iterable[GrantedMount], env: Mapping[str, str]
) -> Edits:
    """Return the edits of nodes, mounts and variables, without empty sections.

    Type and number of a node are left out: the runtime reads them from the node when a container starts. It creates no
    node if
    the path is not a node then.
    """
    sections: dict[str, list[Any]] = {
        "env": [f"{name}={text}" for name, text in env.items()],
        "deviceNodes": [_format_node(node) for node in nodes],
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


def _format_node(node: GrantedNode) -> dict[str, str]:
    host_path = {"hostPath": node.host} if node.host != node.container else {}
    return {"path": node.container, **host_path, "permissions": node.permissions}
