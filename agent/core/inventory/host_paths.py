"""Paths of the host that are no device facts: device nodes, mounts and CDI specs."""

from __future__ import annotations

from typing import Protocol

from agent.core.inventory.device import DeviceNode, MatchedPath
from agent.core.language.glob import find_literal_prefix
from agent.core.language.value import Absent


class HostPaths(Protocol):
    """The device nodes, paths and CDI specs of the host, each found by name."""

    def find_node(self, path: str) -> DeviceNode | Absent:
        """Return the device node of a path after all links. Absent with the reason if the path is no device node."""

    def find_paths(self, pattern: str) -> tuple[MatchedPath, ...] | Absent:
        """Return the existing paths that match a pattern, in natural order.

        Absent with the reason if there are none.
        """

    def find_cdi_spec(self, name: str) -> str | Absent:
        """Return the CDI spec that contains a device with that full name. Absent with the reason if there is none."""

    @property
    def cdi_directories(self) -> tuple[str, ...]:
        """The directories of CDI specs."""


class RecordingHostPaths:
    """A `HostPaths` that records which paths one device reads.

    read_paths: the paths whose change can change a result, in the form of `PathIndex`.
    """

    def __init__(self, host_paths: HostPaths) -> None:
        self.read_paths: frozenset[str] = frozenset()
        self._host_paths = host_paths

    def find_node(self, path: str) -> DeviceNode | Absent:
        """See `HostPaths`."""
        node = self._host_paths.find_node(path)
        self.read_paths |= {path, node.path} if isinstance(node, DeviceNode) else {path}
        return node

    def find_paths(self, pattern: str) -> tuple[MatchedPath, ...] | Absent:
        """See `HostPaths`."""
        matched_paths = self._host_paths.find_paths(pattern)
        path, is_whole = find_literal_prefix(pattern)
        self.read_paths |= {path if is_whole else f"{path}/"}
        self.read_paths |= (
            {matched_path.path for matched_path in matched_paths} if isinstance(matched_paths, tuple) else set()
        )
        return matched_paths

    def find_cdi_spec(self, name: str) -> str | Absent:
        """See `HostPaths`."""
        self.read_paths |= {f"{directory}/" for directory in self.cdi_directories}
        return self._host_paths.find_cdi_spec(name)

    @property
    def cdi_directories(self) -> tuple[str, ...]:
        """See `HostPaths`."""
        return self._host_paths.cdi_directories
