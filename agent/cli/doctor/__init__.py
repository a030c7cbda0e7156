"""Find faults of the host, the kubelet, the container runtime and the rights of the agent, and print the fix.

The command changes nothing. It needs no agent and no root, and it reports each test that it cannot do. With --root, it
tests only what a directory tree or a recording contains.
Exit code 0: no fault in all possible tests. 1: at least one FAIL or WARN.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from typing import NamedTuple

from agent.cli.doctor.node_inspection import ListedNode, NodeState, RuntimeConfig, SocketState, inspect_node
from agent.cli.output import is_json, print_json
from agent.cli.terminal import Terminal
from agent.core.language.safe_text import escape
from agent.host.root import Root

FAULT_SEVERITIES = frozenset({"FAIL", "WARN"})
_ORDER = ("FAIL", "WARN", "NOTE", "ok")
_INOTIFY_DEFAULTS = {"max_user_instances": 128, "max_user_watches": 8192}  # the smallest default values of kernels
_OWNERSHIP_KEY = "device_ownership_from_security_context"
OUTPUTS = ("json", "jsonl")
VERBOSE = True
_STYLES = {"FAIL": "red", "WARN": "yellow", "NOTE": "", "ok": "dim"}


class DoctorFinding(NamedTuple):
    """One finding.

    severity: FAIL, WARN, NOTE or ok.
    code: a word that never changes.
    """

    severity: str
    code: str
    text: str
    evidence: str = ""
    fix: str = ""


def build_findings(node_state: NodeState) -> tuple[DoctorFinding, ...]:
    """Return all findings, the most severe first."""
    all_findings = [
        *_check_configuration(node_state),
        *_check_agent(node_state),
        *_check_kernel_log(node_state),
        *_check_kubelet(node_state),
        *_check_foreign_plugins(node_state),
        *_check_devices(node_state),
        *_check_host(node_state),
        *_check_node_owners(node_state),
        *_check_links(node_state),
        *_check_cdi(node_state),
    ]
    return tuple(sorted(all_findings, key=lambda finding: _ORDER.index(finding.severity)))


def _check_configuration(node_state: NodeState) -> Iterator[DoctorFinding]:
    if node_state.error_count:
        errors = f"{node_state.error_count} error{'s' * (node_state.error_count != 1)}"
        yield DoctorFinding(
            "FAIL", "configuration", f"{errors} in {node_state.config_directory}", "", "device-agent check"
        )
    else:
        yield DoctorFinding("ok", "configuration", "has no error")


def _check_agent(node_state: NodeState) -> Iterator[DoctorFinding]:
    if not node_state.is_live:
        return
    match node_state.agent_socket:
        case SocketState.ANSWERS:
            yield DoctorFinding("ok", "agent", "answers")
        case SocketState.UNKNOWN:
            yield DoctorFinding(
                "NOTE",
                "agent",
                "it is not known whether the agent runs",
                "only root can send requests",
                "run this as root",
            )
        case socket_state:
            evidence = f"its control socket {socket_state.value}"
            yield DoctorFinding(
                "FAIL", "agent", "device-agent is not running", evidence, "systemctl status device-agent"
            )
    if not node_state.is_root:
        text = "some tests are not possible without root"
        yield DoctorFinding("NOTE", "rights", text, "", "run this as root")
    elif node_state.state_fault:
        text = f"{node_state.state_dir} cannot be used: a restart of the agent loses all saved state"
        fix = (
            "findmnt -T "
            + node_state.state_dir
            + "; StateDirectory and ReadWritePaths of the unit list the allowed paths"
        )
        yield DoctorFinding("FAIL", "state", text, node_state.state_fault, fix)
    else:
        yield DoctorFinding("ok", "state", f"{node_state.state_dir} can be written")


def _check_kernel_log(node_state: NodeState) -> Iterator[DoctorFinding]:
    if node_state.kernel_log_fault:
        text = "checks of the kernel log have no result: the agent cannot read the log"
        fix = (
            "the unit needs StandardInput=file:/dev/kmsg and DeviceAllow=/dev/kmsg r: systemctl cat device-agent; "
            "then systemctl daemon-reload; systemctl restart device-agent"
        )
        yield DoctorFinding("NOTE", "kernel-log", text, node_state.kernel_log_fault, fix)


def _check_kubelet(node_state: NodeState) -> Iterator[DoctorFinding]:
    if not node_state.is_live:
        return
    if not node_state.has_kubelet_dir:
        fix = (
            "start the kubelet; if plugins register elsewhere on this node: kubelet.dir in agent.toml, and in the unit"
        )
        yield DoctorFinding("FAIL", "kubelet-directory", f"{node_state.kubelet_dir} is not there", "", fix)
    elif node_state.kubelet_socket is SocketState.ANSWERS:
        yield DoctorFinding("ok", "kubelet", "answers")
    elif node_state.kubelet_socket is not SocketState.UNKNOWN:
        evidence = f"{node_state.kubelet_dir}/kubelet.sock {node_state.kubelet_socket.value}"
        text = "the kubelet is down: no new pod gets a device"
        yield DoctorFinding("FAIL", "kubelet", text, evidence, "journalctl -u kubelet -n 50")
    if node_state.kubelet_socket is SocketState.ANSWERS and not node_state.has_pod_resources:
        text = "the pods of a device are not known: absent IDs stay in the list"
        evidence = f"{node_state.pod_resources} is not there"
        yield DoctorFinding("WARN", "pod-resources", text, evidence, "kubelet.pod_resources in agent.toml is its path")
    if node_state.watcher is not None and not node_state.watcher[1]:
        text = f"{node_state.watcher[0]} is not there, and resources are offered in it"
        yield DoctorFinding(
            "FAIL", "plugin-watcher", text, "", 'kubelet.registration = "socket", or kubelet.watcher_dir'
        )


def _check_foreign_plugins(node_state: NodeState) -> Iterator[DoctorFinding]:
    """Yield resources that a second plugin serves too. The kubelet uses the plugin that registered last."""
    for resource, ids in node_state.registered_ids.items():
        listed = node_state.listed_ids.get(resource)
        if listed is None:
            continue
        foreign_ids = sorted(id for id in ids if id not in listed and id.rpartition("::")[0] not in listed)  # noqa: A001
        if foreign_ids:
            text = f"{resource} has devices that device-agent does not list: another plugin serves it too"
            evidence = f"the kubelet has {', '.join(foreign_ids[:3])}{' …' * (len(foreign_ids) > 3)}"
            if node_state.foreign_sockets:
                evidence += f"; {', '.join(node_state.foreign_sockets)} in {node_state.kubelet_dir} belong to others"
            fix = "keep one plugin: kubectl get daemonset -A, or rename the resource"
            yield DoctorFinding("FAIL", "foreign-plugin", text, evidence, fix)
    if node_state.registered_ids and node_state.listed_ids and not node_state.foreign_sockets:
        yield DoctorFinding("ok", "foreign-plugin", "no other plugin is on this node")


def _check_devices(node_state: NodeState) -> Iterator[DoctorFinding]:
    for (resource, reason), count in node_state.unhealthy_counts.items():
        devices = f"{count} device{'s' * (count != 1)} of {resource}"
        driver = _find_driver(reason.path, node_state) if reason.path.startswith("/dev/") else None
        if driver is not None:
            evidence = f"{reason}; /proc/devices has {node_state.majors[driver]} {driver}, so its module is loaded"
            fix = f"udev or the driver's own tool makes it: udevadm trigger, device-agent explain {resource}"
            yield DoctorFinding(
                "FAIL",
                "node",
                f"{devices} cannot be granted: {reason.path} is missing",
                evidence,
                fix,
            )
        else:
            yield DoctorFinding(
                "FAIL", "devices", f"{devices} cannot be granted", str(reason), f"device-agent explain {resource}"
            )
    if not node_state.unhealthy_counts:
        yield DoctorFinding("ok", "devices", "all present devices can be granted")


def _find_driver(path: str, node_state: NodeState) -> str | None:
    """Return the driver in /proc/devices that has the name of a device node, or None."""
    name = path.rpartition("/")[2]
    return next((driver for driver in node_state.majors if name in {driver, driver.replace("_", "-")}), None)


def _check_host(node_state: NodeState) -> Iterator[DoctorFinding]:
    if not node_state.has_udev:
        text = "udev does not run: the agent sees changes below /dev at once, other changes at each full rescan"
        yield DoctorFinding("WARN", "udev", text, "/run/udev/control is not there", "systemctl status systemd-udevd")
    else:
        yield DoctorFinding("ok", "udev", "runs")
    if not node_state.has_udev_database:
        text = "udev's database is not there: words such as udev.ID_SERIAL have no value"
        fix = "systemctl restart systemd-udevd systemd-udev-trigger"
        yield DoctorFinding("WARN", "udev-database", text, "/run/udev/data is not there", fix)

    for name, minimum in _INOTIFY_DEFAULTS.items():
        if node_state.inotify_limits.get(name, minimum) < minimum:
            text = "the inotify limit is low: the agent reads unwatched paths only at each full rescan"
            evidence = f"fs.inotify.{name} is {node_state.inotify_limits[name]:,}, and all of root's programs share it"
            yield DoctorFinding(
                "WARN", "inotify", text, evidence, f"sysctl fs.inotify.{name}={minimum}, and in /etc/sysctl.d"
            )


def _check_links(node_state: NodeState) -> Iterator[DoctorFinding]:
    """Yield the nodes without a link in /dev/char. If systemd manages the cgroups, runc looks for devices there.

    udev makes these links from sysfs.
    """
    unlinked_nodes = [node for node in node_state.nodes if node.unlinked_number]
    if unlinked_nodes:
        first_node = unlinked_nodes[0]
        remainder = f" and {len(unlinked_nodes) - 1} more" if len(unlinked_nodes) > 1 else ""
        text = f"after systemctl daemon-reload a container may not open {first_node.path}{remainder} any more"
        evidence = (
            f"/dev/char/{first_node.unlinked_number} is not there: runc with systemd's cgroups looks there (runc 1.1)"
        )
        fix = f"a link to ../{first_node.path.removeprefix('/dev/')}, by the driver's tool or tmpfiles.d"
        yield DoctorFinding("NOTE", "dev-char", text, evidence, fix)


def _check_cdi(node_state: NodeState) -> Iterator[DoctorFinding]:
    """Yield findings about CDI: whether there are specs, and whether the container runtime reads them."""
    if not node_state.cdi_resources:
        return
    resource_names = ", ".join(node_state.cdi_resources)
    if not any(node_state.cdi_directories.values()):
        evidence = f"{' and '.join(node_state.cdi_directories)} are not there"
        fix = "the program that makes the specs has not run, or paths.cdi in agent.toml has another path"
        yield DoctorFinding("FAIL", "cdi-directories", f"{resource_names}: there are no CDI specs", evidence, fix)
    for runtime in (
        candidate for candidate in node_state.runtimes if candidate.service != "crio" and not candidate.fault
    ):
        if runtime.cdi is False:
            text = f"{resource_names}: {runtime.service} does not know CDI devices, so no container with one starts"
            fix = f"set it to true, then systemctl restart {runtime.service} (running pods stay)"
            yield DoctorFinding("FAIL", "cdi-runtime", text, f"{runtime.path}: enable_cdi = false", fix)
        elif runtime.cdi is None:
            text = f"{resource_names}: whether {runtime.service} knows CDI devices depends on its version"
            evidence = f"{runtime.path}: enable_cdi is not set; it is on since containerd 2.0, and off before"
            yield DoctorFinding(
                "NOTE", "cdi-runtime", text, evidence, "containerd --version; enable_cdi = true where it is 1.7"
            )
        else:
            yield DoctorFinding("ok", "cdi-runtime", f"{runtime.path}: CDI devices are known")


def _check_node_owners(node_state: NodeState) -> Iterator[DoctorFinding]:
    restricted_nodes = [node for node in node_state.nodes if node.mode & 0o006 != 0o006]
    if not restricted_nodes:
        yield DoctorFinding("ok", "node-owner", "all users may open each granted node, or no node is granted")
        return
    resources = sorted({node.resource for node in restricted_nodes})
    text = (
        f"{', '.join(resources)}: a container that does not run as root may not open {_format_nodes(restricted_nodes)}"
    )
    for runtime in node_state.runtimes:
        if runtime.fault:
            yield DoctorFinding("NOTE", "node-owner", text, f"{runtime.path}: {runtime.fault}", "run this as root")
        elif runtime.ownership is True:
            yield DoctorFinding("ok", "node-owner", f"{runtime.path}: nodes are given to the container's user")
        else:
            yield DoctorFinding("WARN", "node-owner", text, _build_evidence(runtime), _build_fix(runtime))
    if not node_state.runtimes:
        evidence = "no configuration of containerd or CRI-O was found; test it by hand"
        yield DoctorFinding(
            "NOTE", "node-owner", text, evidence, f"{_OWNERSHIP_KEY} = true in the runtime's configuration"
        )


def _format_nodes(nodes: list[ListedNode]) -> str:
    first_node = nodes[0]
    remainder = f" and {len(nodes) - 1} more" if len(nodes) > 1 else ""
    return f"{first_node.path} ({first_node.mode & 0o777:04o} {first_node.owner}:{first_node.group}){remainder}"


def _build_evidence(runtime: RuntimeConfig) -> str:
    setting = (
        f"{_OWNERSHIP_KEY} = false"
        if runtime.ownership is False
        else f"{_OWNERSHIP_KEY} is not set, and its default is false"
    )
    return f"{runtime.path}: {setting}"


def _build_fix(runtime: RuntimeConfig) -> str:
    return f"set it to true, then systemctl restart {runtime.service} (running pods stay)"


def add(parser: argparse.ArgumentParser) -> None:
    """Add no arguments."""
    del parser


def run(arguments: argparse.Namespace) -> int:
    """Inspect the node, print the findings and return the exit code."""
    all_findings = build_findings(inspect_node(arguments.config, Root(arguments.root)))
    if is_json(arguments):
        print_json([_build_json(finding) for finding in all_findings], arguments)
    else:
        terminal = Terminal.detect(sys.stdout, colour=arguments.color, utc=arguments.utc)
        shown_findings = [finding for finding in all_findings if finding.severity != "ok" or arguments.verbose]
        widest = max((len(finding.code) for finding in shown_findings), default=0)
        for finding in shown_findings:
            print("\n".join(_format_lines(finding, terminal, widest)))
        counts = {severity: sum(finding.severity == severity for finding in all_findings) for severity in _STYLES}
        summary = ", ".join(f"{count} {severity}" for severity, count in counts.items())
        print(f"{summary}{'' if arguments.verbose else ' (-v)'}. Nothing was changed.")
    return 1 if any(finding.severity in FAULT_SEVERITIES for finding in all_findings) else 0


def _build_json(finding: DoctorFinding) -> dict[str, str]:
    return {
        "severity": finding.severity,
        "code": finding.code,
        "what": finding.text,
        "evidence": finding.evidence,
        "fix": finding.fix,
    }


def _format_lines(finding: DoctorFinding, terminal: Terminal, widest: int) -> list[str]:
    severity = terminal.style(f"{finding.severity:4}", _STYLES[finding.severity])
    lines = [f"{severity}  {finding.code:{widest}} {escape(finding.text)}"]
    lines += [
        f"      {name:{widest}} {escape(text)}"
        for name, text in (("evidence", finding.evidence), ("fix", finding.fix))
        if text
    ]
    return [terminal.make_displayable(line) for line in lines]
