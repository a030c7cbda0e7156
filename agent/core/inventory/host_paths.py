"""What stands on the host besides facts of devices: nodes, what is mounted, CDI specs; and where that may change."""

from __future__ import annotations

from typing import Protocol

from agent.core.inventory.device import DeviceNode, MatchedPath
from agent.core.language.glob import find_literal_prefix
from agent.core.language.value import Absent


class HostPaths(Protocol):
    """What stands on the host, each asked for by name."""

    def find_node(self, path: str) -> DeviceNode | Absent:
        """The device node that a path leads to, links followed; absent with the reason if it is none."""

    def find_paths(self, pattern: str) -> tuple[MatchedPath, ...] | Absent:
        """What there is that fits a pattern, in natural order; absent with the reason if there is nothing."""

    def find_cdi_spec(self, name: str) -> str | Absent:
        """The CDI spec that has a device of that full name."""

    @property
    def cdi_directories(self) -> tuple[str, ...]:
        """Where CDI specs are looked for."""


class RecordingHostPaths:
    """What one device asks of another `Standing`.

    places: where the answers may change, as `Places` has them.
    """

    def __init__(self, host_paths: HostPaths) -> None:
        self.read_paths: frozenset[str] = frozenset()
        self._host_paths = host_paths

    def find_node(self, path: str) -> DeviceNode | Absent:
        """See `Standing`."""
        node = self._host_paths.find_node(path)
        self.read_paths |= {path, node.path} if isinstance(node, DeviceNode) else {path}
        return node

    def find_paths(self, pattern: str) -> tuple[MatchedPath, ...] | Absent:
        """See `Standing`."""
        matched_paths = self._host_paths.find_paths(pattern)
        path, is_whole = find_literal_prefix(pattern)
        self.read_paths |= {path if is_whole else f"{path}/"}
        self.read_paths |= (
            {matched_path.path for matched_path in matched_paths} if isinstance(matched_paths, tuple) else set()
        )
        return matched_paths

    def find_cdi_spec(self, name: str) -> str | Absent:
        """See `Standing`."""
        self.read_paths |= {f"{directory}/" for directory in self.cdi_directories}
        return self._host_paths.find_cdi_spec(name)

    @property
    def cdi_directories(self) -> tuple[str, ...]:
        """See `Standing`."""
        return self._host_paths.cdi_directories
