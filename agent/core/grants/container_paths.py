"""Container paths of nodes and mounts. No path has two of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from agent.core.entry.resource_spec import MountGive
from agent.core.grants.grant import GrantedMount, GrantedNode
from agent.core.inventory.device import MatchedPath
from agent.core.language.value import Absent


class ContainerPaths:
    """Nodes and mounts, by container path."""

    def __init__(self) -> None:
        self.nodes: dict[str, GrantedNode] = {}
        self.mounts: dict[str, GrantedMount] = {}

    def add_node(self, node: GrantedNode) -> str:
        """Add a node. Return the conflict, or an empty string."""
        earlier, mount = self.nodes.get(node.container), self.mounts.get(node.container)
        if earlier is not None and (earlier.host, earlier.permissions) != (node.host, node.permissions):
            both = f"{earlier.host} {earlier.permissions} and {node.host} {node.permissions}"
            return f"{node.container} would be both {both}"
        if mount is not None:
            return f"{node.container} would be both {node.host} and {_format_mount(mount)}"
        self.nodes[node.container] = node
        return ""

    def add_mount(self, mount: GrantedMount) -> str:
        """Add a mount. Return the conflict, or an empty string."""
        earlier, node = self.mounts.get(mount.container), self.nodes.get(mount.container)
        if earlier is not None and earlier != mount:
            return f"{mount.container} would be both {_format_mount(earlier)} and {_format_mount(mount)}"
        if node is not None:
            return f"{mount.container} would be both {node.host} and {_format_mount(mount)}"
        self.mounts[mount.container] = mount
        return ""


def make_container_path(target: str, path: str) -> str:
    """Return the container path of a host path: a target that ends in a slash gets the name of the host path."""
    return target + path.rpartition("/")[2] if target.endswith("/") else target


def list_mount_paths(
    give: MountGive, container_paths: Iterable[tuple[str, ...] | Absent], match: MatchedPath
) -> Iterator[str]:
    """Yield the container paths of a mount."""
    if not give.container_paths:
        yield match.path
    for paths in container_paths:
        yield from () if isinstance(paths, Absent) else (make_container_path(path, match.path) for path in paths)


def format_path_error(container_path: tuple[str, ...] | Absent) -> str:
    """Return the reason why a node or mount has no container path."""
    reason = container_path.reason if isinstance(container_path, Absent) else f"its `to` is {len(container_path)} paths"
    return f"no place in the container: {reason}"


def _format_mount(mount: GrantedMount) -> str:
    return f"{mount.host} {'read-only' if mount.read_only else 'to write'}"
