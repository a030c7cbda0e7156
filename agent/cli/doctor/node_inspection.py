"""Inspect a node: read its state and decide nothing. The inspection opens only files that it reads."""

from __future__ import annotations

import grp
import json
import os
import pwd
import socket
import stat
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any

from agent.cli.agent_client import AgentUnreachable, send_request
from agent.cli.host_report.host_report import HostReport
from agent.cli.host_report.scan_host import scan_host
from agent.cli.output import NO_PERMISSION
from agent.config.load import load
from agent.config.settings import Settings
from agent.config.toml.finding import Severity
from agent.core.entry.kernel_log_check import LOG_HEAD
from agent.core.language.value import Absent
from agent.core.reason import Reason
from agent.core.struct import Struct, field
from agent.host.root import Root
from agent.kubelet.socket_file import PREFIX


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


ANSWER_SECONDS = 5.0
_CHECKPOINT = "kubelet_internal_checkpoint"
_MAX_BYTES = 16 * 1024 * 1024  # bytes that are read of one file
_OWNERSHIP_KEY = "device_ownership_from_security_context"
_CDI_KEY = "enable_cdi"  # for containerd, off by default before 2.0. CRI-O has no such switch
_INOTIFY_NAMES = ("max_user_instances", "max_user_watches")
# The configuration files of containerd (also in k3s and RKE2) and CRI-O, with the service that reads them.
_RUNTIMES = (
    ("/etc/containerd/config.toml", "containerd"),
    ("/var/lib/rancher/k3s/agent/etc/containerd/config.toml", "k3s"),
    ("/var/lib/rancher/rke2/agent/etc/containerd/config.toml", "rke2-agent"),
    ("/etc/crio/crio.conf", "crio"),
)
_CRIO_PARTS = "/etc/crio/crio.conf.d"


def inspect_node(config: str, root: Root) -> NodeState:
    """Return the state of a node. config: directory of the configuration. root: the host or a recorded tree."""
    configuration = load(config)
    settings = configuration.settings
    is_live = not root.prefix
    kubelet = settings.kubelet
    report = scan_host(root, configuration.resources, cdi_directories=settings.paths.cdi, all_sources=False)
    answer = send_request(settings.paths.control, {"do": "status"}, ANSWER_SECONDS) if is_live else None
    uses_watcher = kubelet.registration == "watcher" or any(
        spec.registration == "watcher" for spec in configuration.resources
    )
    return NodeState(
        is_live=is_live,
        is_root=os.geteuid() == 0,
        config_directory=config,
        error_count=sum(finding.severity is Severity.ERROR for finding in configuration.findings),
        agent_socket=_get_agent_state(answer),
        kubelet_dir=kubelet.dir,
        has_kubelet_dir=os.path.isdir(kubelet.dir),
        kubelet_socket=probe_socket(f"{kubelet.dir}/kubelet.sock"),
        pod_resources=kubelet.pod_resources,
        has_pod_resources=os.path.exists(kubelet.pod_resources),
        state_dir=settings.paths.state,
        state_fault=_find_state_fault(settings),
        listed_ids=_get_listed_ids(answer),
        kernel_log_fault=_find_kernel_log_fault(answer),
        registered_ids=_read_registered_ids(kubelet.dir) if is_live else {},
        foreign_sockets=tuple(_find_foreign_sockets(kubelet.dir)) if is_live else (),
        watcher=(kubelet.watcher_dir, os.path.isdir(kubelet.watcher_dir)) if uses_watcher else None,
        has_udev=root.exists("/run/udev/control"),
        has_udev_database=root.exists("/run/udev/data"),
        nodes=tuple(_list_nodes(report)) if is_live else (),
        runtimes=tuple(_read_runtimes(root)),
        unhealthy_counts=_count_unhealthy(report),
        majors=_read_majors(root),
        inotify_limits=_read_inotify_limits(root),
        cdi_resources=tuple(dict.fromkeys(spec.name for spec in configuration.resources if spec.cdi or spec.via)),
        cdi_directories={path: root.is_directory(path) for path in settings.paths.cdi},
    )


def probe_socket(path: str) -> SocketState:
    """Return whether a program listens at a Unix socket. A full backlog counts as an answer."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK) as probe:
        try:
            probe.connect(path)
        except FileNotFoundError:
            return SocketState.MISSING
        except ConnectionRefusedError:
            return SocketState.REFUSES
        except PermissionError:
            return SocketState.UNKNOWN
        except OSError:
            return SocketState.ANSWERS  # the backlog is full
    return SocketState.ANSWERS


def _get_agent_state(answer: Mapping[str, Any] | AgentUnreachable | None) -> SocketState:
    if answer is None:
        return SocketState.UNKNOWN
    if isinstance(answer, AgentUnreachable):
        return SocketState.UNKNOWN if answer.code == NO_PERMISSION else SocketState.MISSING
    return SocketState.ANSWERS


def _get_listed_ids(answer: Mapping[str, Any] | AgentUnreachable | None) -> Mapping[str, frozenset[str]]:
    if answer is None or isinstance(answer, AgentUnreachable) or "resources" not in answer:
        return {}
    return {
        resource["name"]: frozenset(device["id"] for device in resource["devices"]) for resource in answer["resources"]
    }


def _find_kernel_log_fault(answer: Mapping[str, Any] | AgentUnreachable | None) -> str:
    """Return the reason of a check that cannot read the kernel log, or an empty string."""
    if answer is None or isinstance(answer, AgentUnreachable):
        return ""
    devices = (device for resource in answer.get("resources", ()) for device in resource["devices"])
    reasons = (check["reason"] or "" for device in devices for check in device["checks"])
    return next((reason for reason in reasons if LOG_HEAD in reason), "")


def _find_state_fault(settings: Settings) -> str:
    """Return the reason why root cannot write to the state directory, or an empty string."""
    directory = settings.paths.state
    try:
        status = os.statvfs(directory)
    except FileNotFoundError:
        return ""  # the agent creates the directory
    except OSError as error:
        return error.strerror or str(error)
    if status.f_flag & os.ST_RDONLY:
        return "its file system is read-only"
    return "its file system is full" if status.f_bavail == 0 else ""


def _read_registered_ids(directory: str) -> Mapping[str, frozenset[str]]:
    """Return the healthy IDs of each resource from the checkpoint of the kubelet."""
    try:
        with open(f"{directory}/{_CHECKPOINT}", "rb") as file:
            devices = json.loads(file.read(_MAX_BYTES))["Data"]["RegisteredDevices"] or {}
        return {str(name): frozenset(map(str, ids or ())) for name, ids in devices.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def _find_foreign_sockets(directory: str) -> Iterator[str]:
    try:
        names = sorted(os.listdir(directory))
    except OSError:
        return
    for name in names:
        path = f"{directory}/{name}"
        if name == "kubelet.sock" or name.lstrip(".").startswith(PREFIX):
            continue
        try:
            is_socket = stat.S_ISSOCK(os.lstat(path).st_mode)
        except OSError:
            continue
        if is_socket and probe_socket(path) is SocketState.ANSWERS:
            yield name


def _list_nodes(report: HostReport) -> Iterator[ListedNode]:
    """Yield the device nodes of the listed devices, with their owners."""
    visited_nodes = set()
    for resource, devices in report.lists.items():
        for path in (node.path for device in devices for node in device.nodes):
            if (resource, path) in visited_nodes:
                continue
            visited_nodes.add((resource, path))
            try:
                status = os.stat(path)
            except OSError:
                continue
            number = f"{os.major(status.st_rdev)}:{os.minor(status.st_rdev)}" if stat.S_ISCHR(status.st_mode) else ""
            unlinked_number = number if number and not os.path.lexists(f"/dev/char/{number}") else ""
            yield ListedNode(
                resource,
                path,
                status.st_mode,
                _get_user_name(status.st_uid),
                _get_group_name(status.st_gid),
                unlinked_number,
            )


def _get_user_name(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


def _get_group_name(number: int) -> str:
    try:
        return grp.getgrgid(number).gr_name
    except KeyError:
        return str(number)


def _read_runtimes(root: Root) -> Iterator[RuntimeConfig]:
    """Yield the configuration of each runtime. For CRI-O, the last file with the switch has precedence."""
    for path, service in _RUNTIMES:
        paths = [path]
        if service == "crio":
            file_names = root.list_names(_CRIO_PARTS)
            paths += [] if isinstance(file_names, Absent) else [f"{_CRIO_PARTS}/{name}" for name in file_names]
        configs = [
            config
            for config in (_read_runtime(root, config_path, service) for config_path in paths)
            if config is not None
        ]
        if configs:
            yield next(
                (config for config in reversed(configs) if config.fault or config.ownership is not None), configs[0]
            )


def _read_runtime(root: Root, path: str, service: str) -> RuntimeConfig | None:
    if not root.exists(path):
        return None
    content = root.read_list(path, _MAX_BYTES)
    if isinstance(content, Absent):
        return RuntimeConfig(path, service, fault=content.reason)
    try:
        document = tomllib.loads(content.decode())
        return RuntimeConfig(
            path, service, _find_switch(document, _OWNERSHIP_KEY), cdi=_find_switch(document, _CDI_KEY)
        )
    except ValueError as error:
        return RuntimeConfig(path, service, fault=f"cannot be read: {error}")


def _find_switch(table: object, key: str) -> bool | None:
    """Return a switch in any section, or None. The section has a different name in each version."""
    if not isinstance(table, dict):
        return None
    if isinstance(table.get(key), bool):
        return bool(table[key])
    return next((switch for value in table.values() if (switch := _find_switch(value, key)) is not None), None)


def _read_inotify_limits(root: Root) -> Mapping[str, int]:
    """Return the readable limits of inotify."""
    texts = ((name, root.read(f"/proc/sys/fs/inotify/{name}")) for name in _INOTIFY_NAMES)
    return {name: int(text) for name, text in texts if isinstance(text, str) and text.isdecimal()}


def _count_unhealthy(report: HostReport) -> Mapping[tuple[str, Reason], int]:
    reasons = ((name, device.reason) for name, devices in report.lists.items() for device in devices)
    return Counter((name, reason) for name, reason in reasons if reason)


def _read_majors(root: Root) -> Mapping[str, int]:
    """Return the drivers of character devices with their major numbers."""
    content = root.read_list("/proc/devices", _MAX_BYTES)
    if isinstance(content, Absent):
        return {}
    lines = content.decode("utf-8", "replace").partition("Block devices")[0].splitlines()
    pairs = [line.split() for line in lines]
    return {pair[1]: int(pair[0]) for pair in pairs if len(pair) == 2 and pair[0].isdigit()}
