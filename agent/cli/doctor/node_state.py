"""State of a node, as values. The findings depend only on these values."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from agent.core.reason import Reason
from agent.core.struct import Struct, field


class SocketState(Enum):
    """Result of an attempt to connect to a socket."""

    ANSWERS = "answers"
    REFUSES = "refuses connections"
    MISSING = "is not there"
    UNKNOWN = "may not be asked"


class ListedNode(Struct):
    """A device node of a listed device, with its permissions.

    unlinked_number: major:minor of a character device without a link in /dev/char. It is empty for all other nodes.
    """

    resource: str
    path: str
    mode: int
    owner: str
    group: str
    unlinked_number: str = ""


class RuntimeConfig(Struct):
    """A configuration file of a container runtime.

    ownership: the value of device_ownership_from_security_context, or None if the file does not contain it.
    cdi: the value of enable_cdi, or None if the file does not contain it.
    fault: the reason why the file is not readable, or an empty string.
    """

    path: str
    service: str
    ownership: bool | None = None
    fault: str = ""
    cdi: bool | None = None


class NodeState(Struct):
    """State of a node.

    is_live: whether the host is this machine. For a recorded tree, sockets and permissions have no meaning.
    is_root: whether the command runs as root.
    error_count: errors in the configuration.
    config_directory: directory of the configuration.
    agent_socket: whether the agent answers.
    state_fault: the reason why the state directory is not writable, or an empty string.
    listed_ids: IDs in the device lists of the agent, without shares, by resource. Empty if the agent does not answer.
    registered_ids: healthy IDs in the checkpoint of the kubelet, by resource.
    foreign_sockets: sockets of other programs in the directory of the kubelet that answer.
    watcher: directory of the plugin watcher and whether it exists, if a resource uses the watcher.
    kernel_log_fault: the reason of a check that cannot read the kernel log, or an empty string.
    unhealthy_counts: number of unhealthy devices, by resource and reason.
    majors: names in /proc/devices, with their numbers.
    inotify_limits: limits of the kernel, by name.
    cdi_resources: resources with CDI devices.
    cdi_directories: directories of CDI specs, and whether each exists.
    """

    is_live: bool
    is_root: bool
    config_directory: str
    error_count: int
    agent_socket: SocketState
    kubelet_dir: str
    has_kubelet_dir: bool
    kubelet_socket: SocketState
    pod_resources: str
    has_pod_resources: bool
    state_dir: str
    state_fault: str = ""
    listed_ids: Mapping[str, frozenset[str]] = field(default_factory=dict)
    registered_ids: Mapping[str, frozenset[str]] = field(default_factory=dict)
    foreign_sockets: tuple[str, ...] = ()
    watcher: tuple[str, bool] | None = None
    has_udev: bool = True
    has_udev_database: bool = True
    nodes: tuple[ListedNode, ...] = ()
    runtimes: tuple[RuntimeConfig, ...] = ()
    kernel_log_fault: str = ""
    unhealthy_counts: Mapping[tuple[str, Reason], int] = field(default_factory=dict)
    majors: Mapping[str, int] = field(default_factory=dict)
    inotify_limits: Mapping[str, int] = field(default_factory=dict)
    cdi_resources: tuple[str, ...] = ()
    cdi_directories: Mapping[str, bool] = field(default_factory=dict)
