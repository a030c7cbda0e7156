"""doctor: what is wrong with a node, by which evidence, and what mends it."""

import json
import os
import socket

import pytest

from agent.cli.doctor import build_findings
from agent.cli.doctor import node_inspection as looking
from agent.cli.doctor.node_inspection import ListedNode, NodeState, RuntimeConfig, SocketState
from agent.core.reason import Reason
from agent.core.struct import replace
from device_agent_lab.simulated.checkpoint import Checkpoint

A = "example.com/a"
WELL = NodeState(
    is_live=True,
    is_root=True,
    config_directory="/etc/device-agent",
    error_count=0,
    agent_socket=SocketState.ANSWERS,
    kubelet_dir="/var/lib/kubelet/device-plugins",
    has_kubelet_dir=True,
    kubelet_socket=SocketState.ANSWERS,
    pod_resources="/var/lib/kubelet/pod-resources/kubelet.sock",
    has_pod_resources=True,
    state_dir="/var/lib/device-agent",
    listed_ids={A: frozenset({"x", "y"})},
    registered_ids={A: frozenset({"x", "y::0", "y::1"})},
)
CLOSED = ListedNode(A, "/dev/dri/renderD128", 0o020660, "root", "render")
OPEN = ListedNode(A, "/dev/null", 0o020666, "root", "root")
CONTAINERD = RuntimeConfig("/etc/containerd/config.toml", "containerd")


def test_a_node_that_is_well_has_nothing_but_ok():
    assert {one.severity for one in build_findings(WELL)} == {"ok"}


@pytest.mark.parametrize(
    ("change", "severity", "code", "words"),
    [
        ({"error_count": 2}, "FAIL", "configuration", "2 errors in /etc/device-agent device-agent check"),
        ({"agent_socket": SocketState.MISSING}, "FAIL", "agent", "is not there systemctl status device-agent"),
        ({"agent_socket": SocketState.UNKNOWN}, "NOTE", "agent", "only root can send requests"),
        ({"is_root": False}, "NOTE", "rights", "this is not root"),
        ({"state_fault": "Read-only file system"}, "FAIL", "state", "loses all saved state Read-only"),
        ({"has_kubelet_dir": False}, "FAIL", "kubelet-directory", "device-plugins is not there kubelet.dir"),
        (
            {"kubelet_socket": SocketState.REFUSES},
            "FAIL",
            "kubelet",
            "kubelet.sock refuses connections journalctl -u kubelet",
        ),
        ({"kubelet_socket": SocketState.MISSING}, "FAIL", "kubelet", "kubelet.sock is not there"),
        (
            {"kernel_log_fault": "xid: the kernel log: denied"},
            "NOTE",
            "kernel-log",
            "denied the unit needs StandardInput=file:",
        ),
        ({"has_pod_resources": False}, "WARN", "pod-resources", "pod-resources/kubelet.sock is not there"),
        ({"watcher": ("/reg", False)}, "FAIL", "plugin-watcher", "/reg is not there"),
        (
            {"registered_ids": {A: frozenset({"x", "GPU-1"})}, "foreign_sockets": ("nvidia-gpu.sock",)},
            "FAIL",
            "foreign-plugin",
            "another plugin serves it too the kubelet has GPU-1; nvidia-gpu.sock in",
        ),
        (
            {
                "unhealthy_counts": {(A, Reason.from_text("it is not there", path="/dev/nvidia-uvm")): 8},
                "majors": {"nvidia-uvm": 511},
            },
            "FAIL",
            "node",
            "8 devices of example.com/a /dev/nvidia-uvm is missing /proc/devices has 511 nvidia-uvm udevadm",
        ),
        (
            {"unhealthy_counts": {(A, Reason.from_text("x /dev/nvidia-uvm: y")): 1}, "majors": {"nvidia-uvm": 511}},
            "FAIL",
            "devices",
            "1 device of example.com/a /dev/nvidia-uvm: y explain example.com/a",
        ),
        (
            {"unhealthy_counts": {(A, Reason.from_text("/dev/x: no such file", path="/dev/x")): 1}},
            "FAIL",
            "devices",
            "1 device of example.com/a explain example.com/a",
        ),
        ({"has_udev": False}, "WARN", "udev", "sees changes below /dev at once"),
        ({"has_udev_database": False}, "WARN", "udev-database", "udev.ID_SERIAL have no value"),
        (
            {"nodes": (CLOSED,), "runtimes": (CONTAINERD,)},
            "WARN",
            "node-owner",
            "/dev/dri/renderD128 (0660 root:render) is not set systemctl restart containerd",
        ),
        (
            {"nodes": (CLOSED, CLOSED), "runtimes": (replace(CONTAINERD, ownership=False),)},
            "WARN",
            "node-owner",
            "and 1 more device_ownership_from_security_context = false",
        ),
        ({"nodes": (CLOSED,), "runtimes": (replace(CONTAINERD, fault="x"),)}, "NOTE", "node-owner", "toml: x"),
        (
            {"inotify_limits": {"max_user_watches": 4096}},
            "WARN",
            "inotify",
            "max_user_watches is 4,096 sysctl watches=8192",
        ),
        (
            {"inotify_limits": {"max_user_instances": 16}},
            "WARN",
            "inotify",
            "fs.inotify.max_user_instances is 16, =128",
        ),
        (
            {"nodes": (replace(OPEN, unlinked_number="195:3"), OPEN)},
            "NOTE",
            "dev-char",
            "systemctl daemon-reload a container may not open /dev/null any /dev/char/195:3 is not there",
        ),
        (
            {"cdi_resources": (A,), "cdi_directories": {"/etc/cdi": False, "/var/run/cdi": False}},
            "FAIL",
            "cdi-directories",
            "example.com/a: there are no CDI specs /etc/cdi and /var/run/cdi are not there paths.cdi",
        ),
        (
            {
                "cdi_resources": (A,),
                "cdi_directories": {"/etc/cdi": True},
                "runtimes": (replace(CONTAINERD, cdi=False),),
            },
            "FAIL",
            "cdi-runtime",
            "enable_cdi = false systemctl restart containerd",
        ),
        (
            {"cdi_resources": (A,), "cdi_directories": {"/etc/cdi": True}, "runtimes": (CONTAINERD,)},
            "NOTE",
            "cdi-runtime",
            "enable_cdi is not set containerd 2.0 containerd --version",
        ),
        ({"nodes": (CLOSED,)}, "NOTE", "node-owner", "no configuration of containerd or CRI-O was found"),
    ],
)
def test_one_thing_is_wrong(change, severity, code, words):
    grave = [one for one in build_findings(replace(WELL, **change)) if one.severity != "ok"]
    (found,) = grave
    assert (found.severity, found.code) == (severity, code)
    said = " ".join(found[2:])
    for word in words.split():
        assert word in said, said
    assert found.fix or found.severity == "NOTE"


def test_what_is_as_it_should_be_is_no_finding():
    ownership = replace(CONTAINERD, ownership=True)
    assert {one.severity for one in build_findings(replace(WELL, nodes=(CLOSED,), runtimes=(ownership,)))} == {"ok"}
    assert {one.severity for one in build_findings(replace(WELL, nodes=(OPEN,), runtimes=(CONTAINERD,)))} == {"ok"}
    assert {one.severity for one in build_findings(replace(WELL, foreign_sockets=("other.sock",)))} == {"ok"}
    limits = {"max_user_instances": 128, "max_user_watches": 8192}
    assert {one.severity for one in build_findings(replace(WELL, inotify_limits=limits))} == {"ok"}
    known = replace(CONTAINERD, cdi=True), RuntimeConfig("/etc/crio/crio.conf", "crio")
    assert {
        one.severity
        for one in build_findings(replace(WELL, cdi_resources=(A,), cdi_directories={"/x": True}, runtimes=known))
    } == {"ok"}
    unknown = replace(WELL, listed_ids={}, registered_ids={A: frozenset({"z"})})
    assert {one.severity for one in build_findings(unknown)} == {"ok"}


def test_of_a_recording_only_what_it_can_tell():
    dead = replace(
        WELL,
        is_live=False,
        agent_socket=SocketState.UNKNOWN,
        kubelet_socket=SocketState.MISSING,
        has_kubelet_dir=False,
        is_root=False,
    )
    assert {one.severity for one in build_findings(dead)} == {"ok"}


def test_the_worst_comes_first():
    seen = replace(WELL, has_udev=False, error_count=1, is_root=False)
    assert [one.severity for one in build_findings(seen)][:4] == ["FAIL", "WARN", "NOTE", "ok"]


@pytest.mark.parametrize(
    ("path", "text", "ownership", "service"),
    [
        ("containerd/config.toml", "version = 2\n", None, "containerd"),
        (
            "containerd/config.toml",
            '[plugins."io.containerd.grpc.v1.cri"]\ndevice_ownership_from_security_context = true\n',
            True,
            "containerd",
        ),
        (
            "containerd/config.toml",
            '[plugins."io.containerd.cri.v1.runtime"]\ndevice_ownership_from_security_context = false\n',
            False,
            "containerd",
        ),
        ("crio/crio.conf.d/10.conf", "[crio.runtime]\ndevice_ownership_from_security_context = true\n", True, "crio"),
    ],
)
def test_what_a_runtime_is_told(tree, path, text, ownership, service):
    if service == "crio":
        tree.file("/etc/crio/crio.conf", "[crio.runtime]\ndevice_ownership_from_security_context = false\n")
    tree.file(f"/etc/{path}", text)
    (runtime,) = looking._read_runtimes(tree.root)
    assert (runtime.ownership, runtime.service, runtime.fault) == (ownership, service, "")


def test_whether_a_runtime_knows_cdi(tree):
    for said, known in (("true", True), ("false", False)):
        tree.file("/etc/containerd/config.toml", f'[plugins."io.containerd.grpc.v1.cri"]\nenable_cdi = {said}\n')
        (runtime,) = looking._read_runtimes(tree.root)
        assert runtime.cdi is known


def test_limits_and_cdi_of_a_tree(cli, tree, config):
    """What is asked of a tree as of this very host."""
    tree.pci("0000:3b:00.0")
    tree.file("/proc/sys/fs/inotify/max_user_watches", "1000\n")
    tree.file("/etc/containerd/config.toml", '[plugins."io.containerd.grpc.v1.cri"]\nenable_cdi = false\n')
    gives = 'give.cdi.y = { name = "x.example/y={address}", via = "field" }'
    text = f'[[resource]]\nname = "{A}"\nsource = "pci"\nid = "{{address}}"\n{gives}\n'
    found = {
        one["code"]: one
        for one in json.loads(cli("doctor", "--root", tree.top, "--config", config(text), "-o", "json")[1])
    }
    assert found["inotify"]["evidence"].startswith("fs.inotify.max_user_watches is 1,000")
    assert found["cdi-directories"]["severity"] == "FAIL"
    assert found["cdi-runtime"]["severity"] == "FAIL"
    tree.file("/var/run/cdi/y.yaml", "cdiVersion: 0.5.0\nkind: x.example/y\ndevices: []\n")
    lines = cli("doctor", "--root", tree.top, "--config", config(text), "-o", "jsonl")[1].splitlines()
    assert "cdi-directories" not in {json.loads(line)["code"] for line in lines}


def test_a_runtime_s_file_that_is_no_toml_is_said(tree):
    tree.file("/etc/containerd/config.toml", "= [")
    (runtime,) = looking._read_runtimes(tree.root)
    assert "cannot be read" in runtime.fault


def test_what_the_kubelet_wrote_and_who_else_answers_there(tmp_path):
    assert looking._read_registered_ids(str(tmp_path)) == {}
    Checkpoint.write(str(tmp_path), [], {A: ["x"]})
    assert looking._read_registered_ids(str(tmp_path)) == {A: frozenset({"x"})}
    with (
        socket.socket(socket.AF_UNIX) as live,
        socket.socket(socket.AF_UNIX) as dead,
        socket.socket(socket.AF_UNIX) as ours,
    ):
        for one, name in ((live, "nvidia-gpu.sock"), (dead, "dead.sock"), (ours, "device-agent-0123456789-1.sock")):
            one.bind(str(tmp_path / name))
        live.listen()
        ours.listen()
        assert list(looking._find_foreign_sockets(str(tmp_path))) == ["nvidia-gpu.sock"]
        assert looking.probe_socket(str(tmp_path / "dead.sock")) is SocketState.REFUSES
    assert looking.probe_socket(str(tmp_path / "none")) is SocketState.MISSING
    for junk in ("", "[]", "{}", '{"Data": 5}', '{"Data": {"RegisteredDevices": [1]}}'):
        (tmp_path / "kubelet_internal_checkpoint").write_text(junk)
        assert looking._read_registered_ids(str(tmp_path)) == {}


def test_of_a_tree(cli, tree, config):
    tree.file("/proc/devices", "Character devices:\n  1 mem\n240 foo\n\nBlock devices:\n  8 sd\n")
    tree.pci("0000:3b:00.0")
    text = f'[[resource]]\nname = "{A}"\nsource = "pci"\nid = "{{address}}"\ngive.nodes.foo = "/dev/foo"\n'
    code, out, err = cli("doctor", "--root", tree.top, "--config", config(text), "-o", "json")
    assert (code, err) == (1, "")
    found = {one["code"]: one for one in json.loads(out)}
    assert found["node"]["severity"] == "FAIL"
    assert "/dev/foo is missing" in found["node"]["what"]
    assert "/proc/devices has 240 foo" in found["node"]["evidence"]
    assert found["udev"]["severity"] == "WARN"
    assert "kubelet" not in found
    code, out, _ = cli("doctor", "--root", tree.top, "--config", config(text))
    assert out.startswith("FAIL  node ")
    assert out.endswith(" Nothing was changed.\n")
    assert "\nok " not in out
    assert "\nok " in cli("doctor", "-v", "--root", tree.top, "--config", config(text))[1]
    tree.node("/dev/foo", "c 240:0")
    for path in ("/run/udev/control", "/run/udev/data/x"):
        tree.file(path, "")
    assert cli("doctor", "--root", tree.top, "--config", config(text))[0] == 0


def test_the_state_directory(tmp_path):
    settings = looking.Settings()
    here = replace(settings, paths=replace(settings.paths, state=str(tmp_path)))
    assert looking._find_state_fault(here) == ""
    (tmp_path / "file").write_text("")
    below = replace(settings, paths=replace(settings.paths, state=str(tmp_path / "file/x")))
    assert looking._find_state_fault(below) == os.strerror(20)
