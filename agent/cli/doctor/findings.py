"""What is wrong with a node that was examined: what, by which evidence, and what to do. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from agent.cli.doctor.node_state import ListedNode, NodeState, RuntimeConfig, SocketState

FAULT_SEVERITIES = frozenset({"FAIL", "WARN"})
_ORDER = ("FAIL", "WARN", "NOTE", "ok")
_INOTIFY = {"max_user_instances": 128, "max_user_watches": 8192}  # what kernels have by default, at the least
_KEY = "device_ownership_from_security_context"


class DoctorFinding(NamedTuple):
    """One thing that was looked at. severity: FAIL, WARN, NOTE or ok. code: a word for it, the same for good."""

    severity: str
    code: str
    text: str
    evidence: str = ""
    fix: str = ""


def build_findings(seen: NodeState) -> tuple[DoctorFinding, ...]:
    """Everything, the worst first."""
    found = [
        *_configuration(seen),
        *_agent(seen),
        *_kernel_log(seen),
        *_kubelet(seen),
        *_foreign(seen),
        *_devices(seen),
        *_host(seen),
        *_owners(seen),
        *_links(seen),
        *_cdi(seen),
    ]
    return tuple(sorted(found, key=lambda one: _ORDER.index(one.severity)))


def _configuration(seen: NodeState) -> Iterator[DoctorFinding]:
    if seen.error_count:
        errors = f"{seen.error_count} error{'s' * (seen.error_count != 1)}"
        yield DoctorFinding("FAIL", "configuration", f"{errors} in {seen.config_directory}", "", "device-agent check")
    else:
        yield DoctorFinding("ok", "configuration", "has no error")


def _agent(seen: NodeState) -> Iterator[DoctorFinding]:
    if not seen.is_live:
        return
    match seen.agent_socket:
        case SocketState.ANSWERS:
            yield DoctorFinding("ok", "agent", "answers")
        case SocketState.UNKNOWN:
            yield DoctorFinding(
                "NOTE", "agent", "whether it runs cannot be said", "only root asks it", "run this as root"
            )
        case missing:
            evidence = f"its control socket {missing.value}"
            yield DoctorFinding(
                "FAIL", "agent", "device-agent is not running", evidence, "systemctl status device-agent"
            )
    if not seen.is_root:
        what = "not everything could be looked at: this is not root"
        yield DoctorFinding("NOTE", "rights", what, "", "run this as root")
    elif seen.state_fault:
        what = f"{seen.state_dir} cannot be used: nothing is remembered over a restart"
        fix = "findmnt -T " + seen.state_dir + "; the unit allows what StateDirectory and ReadWritePaths say"
        yield DoctorFinding("FAIL", "state", what, seen.state_fault, fix)
    else:
        yield DoctorFinding("ok", "state", f"{seen.state_dir} can be written")


def _kernel_log(seen: NodeState) -> Iterator[DoctorFinding]:
    if seen.kernel_log_fault:
        what = "checks that listen to the kernel log cannot tell: it was not handed over"
        fix = (
            "the unit needs StandardInput=file:/dev/kmsg and DeviceAllow=/dev/kmsg r: systemctl cat device-agent; "
            "then systemctl daemon-reload; systemctl restart device-agent"
        )
        yield DoctorFinding("NOTE", "kernel-log", what, seen.kernel_log_fault, fix)


def _kubelet(seen: NodeState) -> Iterator[DoctorFinding]:
    if not seen.is_live:
        return
    if not seen.has_kubelet_dir:
        fix = (
            "start the kubelet; if plugins register elsewhere on this node: kubelet.dir in agent.toml, and in the unit"
        )
        yield DoctorFinding("FAIL", "kubelet-directory", f"{seen.kubelet_dir} is not there", "", fix)
    elif seen.kubelet_socket is SocketState.ANSWERS:
        yield DoctorFinding("ok", "kubelet", "answers")
    elif seen.kubelet_socket is not SocketState.UNKNOWN:
        evidence = f"{seen.kubelet_dir}/kubelet.sock {seen.kubelet_socket.value}"
        what = "the kubelet is down: no new pod gets a device"
        yield DoctorFinding("FAIL", "kubelet", what, evidence, "journalctl -u kubelet -n 50")
    if seen.kubelet_socket is SocketState.ANSWERS and not seen.has_pod_resources:
        what = "which pods hold a device cannot be known: ids that are gone stay listed"
        evidence = f"{seen.pod_resources} is not there"
        yield DoctorFinding("WARN", "pod-resources", what, evidence, "kubelet.pod_resources in agent.toml is its path")
    if seen.watcher is not None and not seen.watcher[1]:
        what = f"{seen.watcher[0]} is not there, and resources are offered in it"
        yield DoctorFinding(
            "FAIL", "plugin-watcher", what, "", 'kubelet.registration = "socket", or kubelet.watcher_dir'
        )


def _foreign(seen: NodeState) -> Iterator[DoctorFinding]:
    """A second plugin for a resource: the kubelet takes the one that registered last."""
    for resource, ids in seen.registered_ids.items():
        listed = seen.listed_ids.get(resource)
        if listed is None:
            continue
        others = sorted(id for id in ids if id not in listed and id.rpartition("::")[0] not in listed)  # noqa: A001
        if others:
            what = f"{resource} has devices that device-agent does not list: another plugin serves it too"
            evidence = f"the kubelet has {', '.join(others[:3])}{' …' * (len(others) > 3)}"
            if seen.foreign_sockets:
                evidence += f"; {', '.join(seen.foreign_sockets)} in {seen.kubelet_dir} answer, and are not ours"
            fix = "keep one: kubectl get daemonset -A, or name the resource otherwise"
            yield DoctorFinding("FAIL", "foreign-plugin", what, evidence, fix)
    if seen.registered_ids and seen.listed_ids and not seen.foreign_sockets:
        yield DoctorFinding("ok", "foreign-plugin", "no other plugin is on this node")


def _devices(seen: NodeState) -> Iterator[DoctorFinding]:
    for (resource, reason), count in seen.unhealthy_counts.items():
        devices = f"{count} device{'s' * (count != 1)} of {resource}"
        module = _major_of(reason.path, seen) if reason.path.startswith("/dev/") else None
        if module is not None:
            evidence = f"{reason}; /proc/devices has {seen.majors[module]} {module}, so its module is loaded"
            fix = f"udev or the driver's own tool makes it: udevadm trigger, device-agent explain {resource}"
            yield DoctorFinding(
                "FAIL",
                "node",
                f"{devices} cannot be given out: {reason.path} is missing",
                evidence,
                fix,
            )
        else:
            yield DoctorFinding(
                "FAIL", "devices", f"{devices} cannot be given out", str(reason), f"device-agent explain {resource}"
            )
    if not seen.unhealthy_counts:
        yield DoctorFinding("ok", "devices", "all that is there can be given out")


def _major_of(path: str, seen: NodeState) -> str | None:
    """The driver in /proc/devices that a node belongs to by its name."""
    name = path.rpartition("/")[2]
    return next((major for major in seen.majors if name in {major, major.replace("_", "-")}), None)


def _host(seen: NodeState) -> Iterator[DoctorFinding]:
    if not seen.has_udev:
        what = "udev does not run: changes below /dev are seen at once, others at each sweep"
        yield DoctorFinding("WARN", "udev", what, "/run/udev/control is not there", "systemctl status systemd-udevd")
    else:
        yield DoctorFinding("ok", "udev", "runs")
    if not seen.has_udev_database:
        what = "udev's database is not there: words such as udev.ID_SERIAL say nothing"
        fix = "systemctl restart systemd-udevd systemd-udev-trigger"
        yield DoctorFinding("WARN", "udev-database", what, "/run/udev/data is not there", fix)

    for name, least in _INOTIFY.items():
        if seen.inotify_limits.get(name, least) < least:
            what = "inotify has little room: what cannot be watched is looked at only at each sweep"
            evidence = f"fs.inotify.{name} is {seen.inotify_limits[name]:,}, and all of root's programs share it"
            yield DoctorFinding(
                "WARN", "inotify", what, evidence, f"sysctl fs.inotify.{name}={least}, and in /etc/sysctl.d"
            )


def _links(seen: NodeState) -> Iterator[DoctorFinding]:
    """Where systemd manages a container's cgroup it finds devices by /dev/char; udev makes that of sysfs."""
    lost = [node for node in seen.nodes if node.unlinked_number]
    if lost:
        first = lost[0]
        more = f" and {len(lost) - 1} more" if len(lost) > 1 else ""
        what = f"after systemctl daemon-reload a container may not open {first.path}{more} any more"
        evidence = f"/dev/char/{first.unlinked_number} is not there: runc with systemd's cgroups looks there (runc 1.1)"
        fix = f"a link to ../{first.path.removeprefix('/dev/')}, by the driver's tool or tmpfiles.d"
        yield DoctorFinding("NOTE", "dev-char", what, evidence, fix)


def _cdi(seen: NodeState) -> Iterator[DoctorFinding]:
    """Whether the runtime finds what CDI devices mean."""
    if not seen.cdi_resources:
        return
    named = ", ".join(seen.cdi_resources)
    if not any(seen.cdi_directories.values()):
        evidence = f"{' and '.join(seen.cdi_directories)} are not there"
        fix = "whatever makes the specs has not run, or paths.cdi in agent.toml is another"
        yield DoctorFinding("FAIL", "cdi-directories", f"{named}: there are no CDI specs", evidence, fix)
    for runtime in (one for one in seen.runtimes if one.service != "crio" and not one.fault):
        if runtime.cdi is False:
            what = f"{named}: {runtime.service} does not know CDI devices, so no container with one starts"
            fix = f"set it to true, then systemctl restart {runtime.service} (running pods stay)"
            yield DoctorFinding("FAIL", "cdi-runtime", what, f"{runtime.path}: enable_cdi = false", fix)
        elif runtime.cdi is None:
            what = f"{named}: whether {runtime.service} knows CDI devices depends on its version"
            evidence = f"{runtime.path}: enable_cdi is not said; it is on since containerd 2.0, and off before"
            yield DoctorFinding(
                "NOTE", "cdi-runtime", what, evidence, "containerd --version; enable_cdi = true where it is 1.7"
            )
        else:
            yield DoctorFinding("ok", "cdi-runtime", f"{runtime.path}: CDI devices are known")


def _owners(seen: NodeState) -> Iterator[DoctorFinding]:
    closed = [node for node in seen.nodes if node.mode & 0o006 != 0o006]
    if not closed:
        yield DoctorFinding("ok", "node-owner", "every node that is given is open to all, or none is given")
        return
    resources = sorted({node.resource for node in closed})
    what = f"{', '.join(resources)}: a container that does not run as root may not open {_who(closed)}"
    for runtime in seen.runtimes:
        if runtime.fault:
            yield DoctorFinding("NOTE", "node-owner", what, f"{runtime.path}: {runtime.fault}", "run this as root")
        elif runtime.ownership is True:
            yield DoctorFinding("ok", "node-owner", f"{runtime.path}: nodes are given to the container's user")
        else:
            yield DoctorFinding("WARN", "node-owner", what, _evidence(runtime), _fix(runtime))
    if not seen.runtimes:
        evidence = "no configuration of containerd or CRI-O was found: where it is, is to be looked at by hand"
        yield DoctorFinding("NOTE", "node-owner", what, evidence, f"{_KEY} = true in the runtime's configuration")


def _who(nodes: list[ListedNode]) -> str:
    first = nodes[0]
    more = f" and {len(nodes) - 1} more" if len(nodes) > 1 else ""
    return f"{first.path} ({first.mode & 0o777:04o} {first.owner}:{first.group}){more}"


def _evidence(runtime: RuntimeConfig) -> str:
    said = f"{_KEY} = false" if runtime.ownership is False else f"{_KEY} is not said, and false is its default"
    return f"{runtime.path}: {said}"


def _fix(runtime: RuntimeConfig) -> str:
    return f"set it to true, then systemctl restart {runtime.service} (running pods stay)"
