"""What was seen of a node, as values; what is wrong with it is decided from these alone."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from agent.core.reason import Reason
from agent.core.struct import Struct, field


class SocketState(Enum):
    """What became of an attempt to connect."""

    ANSWERS = "answers"
    REFUSES = "refuses connections"
    MISSING = "is not there"
    UNKNOWN = "may not be asked"


class ListedNode(Struct):
    """A device node that a resource gives: where, and who may open it.

    number: of a character device (major:minor) that has no link in /dev/char; empty for one that has, and for others.
    """

    resource: str
    path: str
    mode: int
    owner: str
    group: str
    unlinked_number: str = ""


class RuntimeConfig(Struct):
    """A configuration of a container runtime.

    ownership, cdi: what it says of device_ownership_from_security_context and of enable_cdi, if it does.
    fault: why it could not be read; empty if it could.
    """

    path: str
    service: str
    ownership: bool | None = None
    fault: str = ""
    cdi: bool | None = None


class NodeState(Struct):
    """All that was seen.

    live: it is this very host, and not a tree in its place; only then sockets and rights mean something.
    errors: in the configuration. config: its directory.
    agent: whether it answers, and why not. state: why the state directory cannot be written; empty if it can.
    listed: the ids that the agent lists, shares left out, by resource; empty if it does not answer.
    registered: the healthy ids by resource that the kubelet has written down.
    foreign: sockets in the kubelet's directory that are not ours and answer.
    watcher: the plugin watcher's directory, if a resource is offered there; and whether it is there.
    deaf: what checks of the agent say that listen to the kernel log and cannot; empty if none does.
    faults: how many devices are not to be given out, by resource and reason.
    majors: the names of /proc/devices, with their number.
    inotify: the kernel's limits, by name.
    by_cdi: the resources that give CDI devices. cdi: the directories of their specs, and whether each is there.
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
