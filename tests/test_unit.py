"""The systemd unit: systemd accepts it, and it contains what the contract requires."""

import configparser
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from agent.config.settings import Settings

UNIT = Path(__file__).parents[1] / "systemd" / "device-agent.service"
EXPOSURE = 20  # tenths; a bare unit has 96

analyze = shutil.which("systemd-analyze")
needs_systemd = pytest.mark.skipif(not analyze, reason="systemd-analyze is not installed (Debian: systemd)")


@pytest.fixture
def installed(tmp_path):
    """The unit as installed, with a program that is there."""
    at = tmp_path / "device-agent.service"
    at.write_text(UNIT.read_text().replace("/usr/bin/device-agent", "/bin/true"))
    return str(at)


def run_systemd(*arguments):
    done = subprocess.run([analyze, *arguments], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


@needs_systemd
def test_systemd_takes_it_as_it_is(installed):
    assert run_systemd("verify", installed) == (0, "")


@needs_systemd
def test_a_mistake_would_be_seen(installed):
    Path(installed).write_text(Path(installed).read_text().replace("Restart=always", "Restart=allways"))
    code, text = run_systemd("verify", installed)
    assert (code != 0) or "allways" in text


@needs_systemd
def test_its_exposure_is_small(installed):
    code, text = run_systemd("security", "--offline=yes", f"--threshold={EXPOSURE}", installed)
    assert code == 0, text


def test_the_kernel_log_is_handed_over_and_nothing_else_of_it_is_shown():
    """systemd opens it after the process is in its cgroup, whose devices DevicePolicy closes, and before all else."""
    lines = dict(line.split("=", 1) for line in UNIT.read_text().splitlines() if re.match("[A-Z].*=", line))
    assert (lines["StandardInput"], lines["DeviceAllow"]) == ("file:/dev/kmsg", "/dev/kmsg r")
    assert (lines["StandardOutput"], lines["StandardError"]) == ("journal", "journal")  # else they follow the input
    assert (lines["ProtectKernelLogs"], lines["PrivateUsers"], lines["CapabilityBoundingSet"]) == ("yes", "yes", "")
    assert lines["DevicePolicy"] == "closed"


def test_what_to_do_where_the_kernel_log_cannot_be_opened_is_said():
    """systemd begins nothing then, and has no way to go on without it (`OpenFile=…,graceful` came with 253)."""
    page = (UNIT.parents[1] / "docs" / "operations.md").read_text()
    assert "`status=208/STDIN`" in page
    assert "`StandardInput=null`" in page


def test_what_the_contract_asks():  # 80, 83
    unit = configparser.RawConfigParser(strict=False)
    unit.optionxform = str
    unit.read(UNIT)
    assert unit["Unit"]["Before"] == "kubelet.service"
    assert not re.search(r"^(BindsTo|Requires|PartOf)=", UNIT.read_text(), re.MULTILINE)
    service = unit["Service"]
    assert (service["Type"], service["Restart"], unit["Unit"]["StartLimitIntervalSec"]) == ("notify", "always", "0")
    assert service["RestartSec"] == "500ms"
    assert service["WatchdogSec"]
    assert int(service["LimitNOFILE"]) >= 10_000  # a thousand resources have three each
    assert service["ExecReload"] == "/bin/kill -HUP $MAINPID"
    assert service["CapabilityBoundingSet"] == ""


def values(key):
    """Return every value of a list-valued key of the unit, in order."""
    lines = UNIT.read_text().splitlines()
    return [value for line in lines if line.startswith(f"{key}=") for value in line.partition("=")[2].split()]


def writable():
    """Return the paths that the unit may write."""
    paths = {path.removeprefix("-") for path in values("ReadWritePaths")}
    paths |= {f"/var/lib/{name}" for name in values("StateDirectory")}
    paths |= {f"/run/{name}" for name in values("RuntimeDirectory")}
    return paths | ({"/tmp", "/var/tmp"} if values("PrivateTmp") == ["yes"] else set())


def test_every_writable_path_has_a_reason():
    """The table of operations.md is the list: a path that is new in the unit needs a row, with its reason."""
    page = (UNIT.parents[1] / "docs" / "operations.md").read_text()
    table = page.partition("| the unit may write | reason |")[2].partition("\n\n")[0]
    rows = re.findall(r"^\| (.+?) \| (.+?) \|$", table, re.MULTILINE)
    reasons = {path: reason for paths, reason in rows for path in re.findall(r"`([^`]+)`", paths)}
    assert reasons.keys() == writable()
    assert all(reasons.values())
    more = {"BindPaths", "CacheDirectory", "LogsDirectory", "ConfigurationDirectory", "RootDirectory"}
    assert not [key for key in more if values(key)]


def test_what_root_could_write_without_a_capability_is_read_only():
    """systemd 252 and 257 leave these writable beside ProtectSystem=strict: tried as a process of the unit."""
    assert values("ProtectSystem") == ["strict"]
    assert {"/run", "/dev", "/dev/shm", "-/dev/mqueue", "-/dev/hugepages"} <= set(values("ReadOnlyPaths"))
    assert {"-/var/lib/kubelet/config.yaml", "-/var/lib/kubelet/kubeadm-flags.env"} <= set(values("ReadOnlyPaths"))
    assert {"-/var/lib/kubelet/pki", "-/var/lib/kubelet/pods"} <= set(values("InaccessiblePaths"))


def test_sockets_that_obey_root_are_hidden():
    """A read-only mount does not keep from connecting, and systemd asks for nothing but user 0."""
    assert values("TemporaryFileSystem") == ["/run/systemd:ro"]
    assert values("BindReadOnlyPaths") == ["/run/systemd/notify", "-/run/systemd/journal"]
    hidden = {"-/run/dbus", "-/run/udev/control", "-/run/containerd", "-/run/crio", "-/run/docker.sock", "-/run/k3s"}
    assert hidden <= set(values("InaccessiblePaths"))


def test_the_agent_may_write_where_it_does_by_default():
    kubelet, paths = Settings().kubelet, Settings().paths
    written = [kubelet.dir, kubelet.watcher_dir, paths.state, paths.control, paths.cdi[-1], paths.devinfo]
    for path in (Path(re.sub("^/var/run/", "/run/", path)) for path in written):
        assert any(path.is_relative_to(allowed) for allowed in writable()), path
