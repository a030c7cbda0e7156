import os
import pty
import select
import signal
import subprocess
import sys
import time

import pytest

from agent.config.load import load
from agent.core.inventory.device import DeviceNode
from agent.core.language.safe_text import count_columns
from agent.core.language.value import Absent
from agent.host.root import Root
from device_agent_lab.command.configuration import build_entries, build_pty_entry, write_entries
from device_agent_lab.command.grant import format_grant_options
from device_agent_lab.command.lab_directories import open_private_directories
from device_agent_lab.command.pseudo_terminal import PseudoTerminal
from device_agent_lab.simulated.container_options import ContainerOptions
from tests.cli.conftest import TOP, device_agent
from tests.namespaces import need_namespaces

root_only = pytest.mark.skipif(os.getuid() != 0, reason="needs root to become somebody else")
no_terminals = pytest.mark.skipif(not os.path.exists("/dev/ptmx"), reason="no pseudo-terminals here")


def left_behind():
    """Directories of labs whose process is gone; others may be at it at the same time."""
    return [
        f"{place}/{name}"
        for place in ("/tmp", "/dev/shm")
        if os.path.isdir(place)
        for name in os.listdir(place)
        if name.startswith("da-") and not os.path.exists(f"/proc/{name.split('-')[1]}")
    ]


@pytest.fixture(autouse=True)
def nothing_stays():
    before = left_behind()
    yield
    assert set(left_behind()) <= set(before)


# ------------------------------------------------------------ demo


def all_went_well(done):
    assert done.returncode == 0, done.stdout + done.stderr
    assert "All 6 steps succeeded." in done.stdout
    assert [line for line in done.stdout.splitlines() if count_columns(line) > 80] == []
    assert "\033" not in done.stdout
    assert done.stderr == ""


def test_demo():
    done = device_agent("lab", "--demo")
    all_went_well(done)
    for number in range(1, 7):
        assert f"\n{number} " in done.stdout


@root_only
def test_demo_as_nobody():
    all_went_well(device_agent("lab", "--demo", nobody=True, HOME="/nonexistent"))


def test_demo_on_a_dumb_terminal_in_ascii():
    done = device_agent("lab", "--demo", TERM="dumb", PYTHONIOENCODING="ascii", PYTHONUTF8="0", LC_ALL="C")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.isascii()
    assert "Healthy -> Unhealthy" in done.stdout or "left out" in done.stdout


def run_demo_unshared(setup):
    """Run the demo in its own mount namespace, changed by `setup`."""
    need_namespaces("--mount")
    return subprocess.run(
        ["unshare", "--mount", "sh", "-ec", f"{setup}; exec {sys.executable} -m agent.cli.main lab --demo"],
        capture_output=True,
        text=True,
        timeout=240,
        cwd=TOP,
        check=False,
    )


def test_demo_where_dev_shm_cannot_be_written():
    done = run_demo_unshared("mount -t tmpfs -o ro none /dev/shm")
    all_went_well(done)
    assert "no directory below /dev can be written" in done.stdout


def test_demo_with_next_to_nothing_in_dev():
    done = run_demo_unshared("mount -t tmpfs none /dev; mknod /dev/null c 1 3; mknod /dev/urandom c 1 9")
    all_went_well(done)
    assert "skipped: no pseudo-terminal" in done.stdout


def test_a_step_that_goes_wrong_makes_it_fail(monkeypatch, capsys):
    from agent.cli.main import main
    from device_agent_lab.command import demo

    async def wrong(self):
        yield "so far"
        raise demo.DemoStepError("one device", "none")

    monkeypatch.setattr(demo.Demo, "_allocate", wrong)
    monkeypatch.setattr(demo, "UNPLUG_SECONDS", 0.0)
    assert main(["lab", "--demo"]) == 1
    out = capsys.readouterr().out
    assert "    ✖ expected  one device\n      seen      none\n" in out
    assert "1 of 6 steps failed." in out


# ------------------------------------------------------------ through a pipe


def test_lines_through_a_pipe():
    script = """
show
allocate lab.example/null 2
show p1
show lab.example/null
kubelet restart
show
release p1
"""
    done = device_agent("lab", given=script)
    assert done.returncode == 0, done.stdout + done.stderr
    said = done.stdout
    assert "node /dev/null   char 1:3   rw" in said
    assert "p1: null::" in said
    assert "listed again after" in said
    assert "p1 ended" in said


@no_terminals
def test_unplugging_and_a_kubelet_that_is_away():
    script = (
        "unplug\nunplug\nkubelet stop\nplug\nallocate lab.example/null\nkubelet start\nshow lab.example/pty\nquit\nshow"
    )
    done = device_agent("lab", given=script)
    said = done.stdout
    assert "lab.example/pty pty: Healthy → Unhealthy: absent" in said
    assert "✖ the terminal is unplugged already" in said
    assert "plugged in; no kubelet is running" in said
    assert "✖ the kubelet: no kubelet is running" in said
    assert said.count("lab> show") == script.count("show lab")
    assert done.returncode == 1  # two of the lines could not be done


WRONG = {
    "alocate x": "alocate: unknown command; nearest: allocate",
    "allocate": "usage: allocate RESOURCE [N]",
    "allocate lab.example/null none": "none: not a number of devices; write 1 to 1000000",
    "allocate lab.example/null 0": "0: not a number of devices; write 1 to 1000000",
    "allocate lab.example/null 11": "UnexpectedAdmissionError",
    "allocate lab.example/nul": "does not know lab.example/nul",
    "show lab.example/nul": "no resource and no pod; nearest: lab.example/null",
    "release p9": "p9: no such pod; there are: none",
    "kubelet dance": "usage: kubelet restart|stop|start",
    "kubelet start": "the kubelet is running already",
    "\x1b[2J": r'"\x1b[2J": unknown command',
}


def test_lines_that_cannot_be_done():
    done = device_agent("lab", given="\n".join(WRONG))
    assert done.returncode == 1
    assert "\x1b" not in done.stdout
    answers = [line for line in done.stdout.splitlines() if line.startswith("✖")]
    assert len(answers) == len(WRONG)
    for answer, wanted in zip(answers, WRONG.values(), strict=True):
        assert wanted in answer


def test_one_s_own_configuration_and_a_reload(config):
    directory = config('[[resource]]\nname = "example.com/z"\nsource = { node = "/dev/zero" }\n')
    with subprocess.Popen(
        [sys.executable, "-m", "agent.cli.main", "lab", "--config", directory],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=TOP,
    ) as lab:
        assert "resources streaming" in lab.stdout.readline()
        config('[[resource]]\nname = "example.com/f"\nsource = { node = "/dev/full" }\n', "b.toml")
        out, _ = lab.communicate(
            "reload\nkubelet restart\nallocate example.com/f\nallocate example.com/z\n", timeout=240
        )
    assert "1 added (example.com/f)" in out
    assert lab.returncode == 0, out


def test_a_configuration_with_nothing_right_in_it(config):
    done = device_agent("lab", "--config", config("[[resource]]\nnome = 1\n"), given="")
    assert "unknown-key" in done.stderr


def test_a_terminated_lab_leaves_nothing():
    with subprocess.Popen(
        [sys.executable, "-m", "agent.cli.main", "lab"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=TOP,
    ) as lab:
        lab.stdout.readline()
        lab.send_signal(signal.SIGTERM)
        lab.wait(60)
        assert "Traceback" not in lab.stderr.read()


# ------------------------------------------------------------ on a terminal


class Screen:
    """A terminal with the lab in it."""

    def __init__(self, *arguments):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.chdir(TOP)
            os.environ.update(TERM="xterm", LC_ALL="C.UTF-8")
            os.execv(sys.executable, [sys.executable, "-m", "agent.cli.main", *arguments])
        self.seen = ""

    def until(self, text, seconds=120):
        """Read until the text is seen; what came before it is done with."""
        end = time.monotonic() + seconds
        while text not in self.seen:
            ready, _, _ = select.select([self.fd], [], [], max(0, end - time.monotonic()))
            assert ready, f"{text!r} not seen in {self.seen!r}"
            try:
                self.seen += os.read(self.fd, 65536).decode(errors="replace")
            except OSError:
                raise AssertionError(f"it ended; {text!r} not seen in {self.seen!r}") from None
        before, _, self.seen = self.seen.partition(text)
        return before

    def type(self, text):
        os.write(self.fd, text.encode())

    def end(self):
        code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        os.close(self.fd)
        return code


@no_terminals
def test_on_a_terminal():
    screen = Screen("lab")
    screen.until("help lists the commands")
    screen.until("lab> ")
    screen.type("unplug\r")
    screen.until("unplugged; the kubelet has the change after")
    screen.until("lab> ")
    screen.type("alloc\tlab.example/nu\t\r")  # Tab completes
    screen.until("node /dev/null")
    screen.type("bogus\r")
    screen.until("unknown command")
    screen.until("lab> ")
    screen.type("\x04")
    assert screen.end() == 0


@no_terminals
def test_control_c_ends_it():
    screen = Screen("lab")
    screen.until("lab> ")
    screen.type("\x03")
    assert screen.end() == 130


@no_terminals
def test_scan_folds_and_fits_a_terminal():
    screen = Screen("scan", "--all", "--color", "never")
    shown = screen.until("One: scan DEVICE.")
    assert screen.end() == 0
    assert " +" in shown


# ------------------------------------------------------------ its parts


def test_what_a_container_gets():
    options = ContainerOptions(
        envs={"A": "1"},
        devices={"/dev/a": ("/dev/a", "rw"), "/dev/serial0": ("/dev/ttyUSB0", "r"), "/dev/x": ("/dev/x", "rw")},
        mounts={"/in": ("/out", True)},
        annotations={"b.com/c": "2"},
        cdi_devices=["d.com/e=f"],
    )
    nodes = {"/dev/a": DeviceNode("/dev/a", "c", 10, 1), "/dev/ttyUSB0": DeviceNode("/dev/ttyUSB0", "b", 188, 0)}
    assert format_grant_options(options, lambda path: nodes.get(path, Absent("no such file"))) == [
        "node /dev/a         char 10:1      rw",
        "node /dev/ttyUSB0   block 188:0    r   in the container /dev/serial0",
        "node /dev/x         no such file   rw",
        "mount /out          ro             /in",
        "cdi  d.com/e=f",
        "env  A=1",
        "annotation b.com/c=2",
    ]
    assert format_grant_options(ContainerOptions(), lambda path: Absent("")) == ["the grant is empty"]


def test_the_configuration_made_here_is_without_a_mistake(tmp_path):
    chosen = [*build_entries(Root()), build_pty_entry("/dev/shm/da-x[1]/pty")]
    write_entries(str(tmp_path), "all.toml", chosen)
    loaded = load(str(tmp_path))
    assert loaded.findings == ()
    assert [spec.name for spec in loaded.resources] == [entry.name for entry in chosen]


def test_it_can_be_written_and_is_not_written_over(tmp_path, cli):
    code, out, _ = cli("lab", "--write", tmp_path / "my")
    assert (code, "device-agent check --config" in out) == (0, True)
    assert cli("check", "--config", tmp_path / "my")[0] == 0
    assert cli("lab", "--write", tmp_path / "my")[0] == 1


def test_long_directories_are_not_used(monkeypatch, tmp_path):
    long = tmp_path / ("x" * 80)
    long.mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(long))
    with open_private_directories() as place:
        assert len(place.watcher) < 75
        assert not place.top.startswith(str(long))


@no_terminals
@pytest.mark.parametrize("linked", [True, False])
def test_a_terminal_comes_back_under_its_path(tmp_path, linked):
    terminal = PseudoTerminal(str(tmp_path) if linked else "")
    path = terminal.path
    assert os.path.exists(path)
    terminal.unplug()
    assert not os.path.lexists(path)
    terminal.plug()
    assert os.path.exists(path)
    assert terminal.path == path
    terminal.unplug()


@pytest.mark.parametrize("recorded", [False, True], ids=["tree", "recording"])
def test_a_tree_in_place_of_the_host(tree, tmp_path, recorded):
    tree.pci("0000:3b:00.0", driver="mlx5_core")
    tree.node("/dev/fuse", "c 10:229")
    root = str(tree.top)
    if recorded:
        file = str(tmp_path / "host.rec")
        assert device_agent("record", file, "--root", root).returncode == 0
        root = file
    lines = "allocate lab.example/fuse\nallocate lab.example/pci-network\nunplug"
    done = device_agent("lab", "--root", root, given=lines)
    assert "node /dev/fuse   char 10:229   rw" in done.stdout
    assert "env  PCIDEVICE_LAB_EXAMPLE_PCI-NETWORK=0000:3b:00.0" in done.stdout
    assert "with --root the lab has no terminal" in done.stdout
