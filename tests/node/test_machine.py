"""The machine of namespaces itself: what it hides, and that nothing of it stays."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.node.conftest import unable
from tests.node.keeper import GROUP, SYSCTLS, Hierarchies
from tests.node.machine import Machine, unfit, until
from tests.node.node import Node, entry

# What a kubelet, containerd, runc and the agent write to, and what scenarios make.
WRITTEN = (
    "/var/lib/kubelet", "/var/lib/containerd", "/var/lib/cni", "/var/lib/device-agent", "/var/log/pods",
    "/var/log/containers", "/run/containerd", "/run/runc", "/run/device-agent", "/run/program", "/etc/cdi", "/dev/lab",
)  # fmt: skip


def host():
    """What a node could leave behind on the host."""
    return {
        "mounts": sorted(line.split(" ", 4)[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()),
        "settings": {name: Path(f"/proc/sys/{name}").read_text() for name in SYSCTLS},
        "cgroups": sorted(str(path) for path in tops() if not path.name.startswith(GROUP)),
        "files": {path: sorted(os.listdir(path)) if os.path.isdir(path) else None for path in WRITTEN},
    }


def tops():
    """The cgroups below the root of each hierarchy."""
    return [path for mount in Hierarchies().mounts for path in Path(mount[0]).iterdir() if path.is_dir()]


def list_processes(group):
    """Return the processes whose cgroup is or was in that of a machine."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cgroup"):
        try:
            text = path.read_text()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if f"/{group}" in text:
            found.append(path.parent.name)
    return found


@pytest.fixture
def machine():
    if reason := unfit():
        unable(reason)
    before = host()
    made = Machine()
    yield made
    made.close()
    assert not made.path("/").exists()
    group = f"{GROUP}{made.keeper.pid}"
    assert list_processes(group) == []
    assert [path for path in tops() if path.name == group] == []
    assert host() == before


def test_nothing_of_a_node_with_pods_stays(machine, kubelet_program):
    node = Node(machine, kubelet_program)
    node.begin()
    node.install("0")
    node.plug("lab", "c", 240, 1)
    node.serve(entry("lab", "/dev/lab"))
    node.start_agent()
    node.offers("lab", "lab")
    node.apply("left-running", lab=1)
    node.running("left-running")
    assert len(list_processes(f"{GROUP}{machine.keeper.pid}")) > 5


def test_nothing_stays_of_a_machine_whose_test_was_killed(machine):
    machine.start("sleeps", "sleep", "1000")
    group = f"{GROUP}{machine.keeper.pid}"
    assert list_processes(group)
    machine.keeper.stdin.close()  # as the kernel does for a process that is killed
    machine.keeper.wait(30)
    assert list_processes(group) == []
    machine.keeper.stdin = None


def test_the_next_machine_clears_away_after_a_keeper_that_was_killed(machine):
    other = Machine()
    group = f"{GROUP}{other.keeper.pid}"
    other.keeper.send_signal(signal.SIGKILL)
    other.keeper.communicate()
    until(lambda: list_processes(group) == [], 10, "its processes are gone")
    assert group in {path.name for path in tops()}
    Machine().close()
    assert group not in {path.name for path in tops()}


@pytest.mark.parametrize("path", ["/usr/x", "/tmp/x", "/etc/x", "/sys/kernel/x", "/proc/sys/kernel/sysrq", "/root/x"])
def test_the_hosts_files_cannot_be_written(machine, path):
    assert machine.run("sh", "-c", f"echo 1 > {path}")[0] != 0


def test_it_has_no_network_but_loopback(machine):
    assert os.listdir(machine.path("/sys/class/net")) == ["lo"]


def test_what_is_missing_is_named(monkeypatch):
    monkeypatch.setenv("PATH", "/nonexistent")
    assert os.geteuid() != 0 or unfit() == "missing Debian packages: apt-get install busybox-static containerd runc"
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert unfit().startswith("not root")


def test_without_the_capability_it_says_so():
    if os.geteuid() != 0:
        pytest.skip("not root")
    code = "from tests.node.machine import unfit; print(unfit())"
    said = subprocess.run(
        ["setpriv", "--bounding-set=-sys_admin", "--inh-caps=-sys_admin", "python3", "-c", code],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    assert "CAP_SYS_ADMIN" in said
