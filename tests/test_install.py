"""`make install` of this tree, without a network: a node has no lab, and with LAB=1 it has one."""

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from agent.cli.main import COMMANDS

TOP = Path(__file__).parent.parent
OFFLINE = {"PIP_NO_INDEX": "1", "PIP_NO_DEPS": "1", "PIP_NO_BUILD_ISOLATION": "0"}
# Without the Python paths and the pip options of whoever runs the tests.
ENVIRONMENT = {key: value for key, value in os.environ.items() if not key.startswith(("MAKE", "PYTHON", "PIP_"))}


@pytest.fixture(scope="module")
def install(tmp_path_factory):
    """Return a function that runs `make install` and returns a function that runs a command of the installed program.

    All calls install to the same directory, as on one node.
    """
    directory = tmp_path_factory.mktemp("node")
    libraries = tmp_path_factory.mktemp("libraries")  # those of the tests, except device-agent itself
    for library in Path(sysconfig.get_path("purelib")).iterdir():
        if not library.name.startswith("device_agent"):
            (libraries / library.name).symlink_to(library)
    with_libraries = ENVIRONMENT | {"PYTHONPATH": str(libraries)}

    def run_make(*variables):
        command = ["make", "install", f"DESTDIR={directory}", f"PYTHON={sys.executable}", *variables]
        done = subprocess.run(
            command, cwd=TOP, env=with_libraries | OFFLINE, check=True, capture_output=True, timeout=280
        )
        assert b"WARNING" not in done.stdout + done.stderr

        def run(*arguments):
            return subprocess.run(
                [directory / "opt/device-agent/bin/python", *arguments],
                cwd=directory,
                env=with_libraries,
                capture_output=True,
                text=True,
                check=False,
            )

        return run

    run_make.directory = directory
    return run_make


def find_files(directory, name):
    return sorted(path for path in directory.rglob("*") if name in path.name)


def test_a_node_has_no_lab_unless_it_is_asked_for(install):
    node = install()
    assert find_files(install.directory, "simulated") == []
    assert find_files(install.directory, "fake-kubelet") == [
        install.directory / "usr/share/doc/device-agent/fake-kubelet.md"
    ]
    source = node("-c", "import agent; print(agent.__file__)").stdout
    assert source.startswith(str(install.directory))
    for arguments in (["lab"], ["lab", "--demo"], ["lab", "--help"], ["help", "lab"]):
        answer = node("-m", "agent", *arguments)
        assert (answer.returncode, answer.stdout) == (2, "")
        assert answer.stderr == (
            "device-agent lab: the lab is not installed on this node; "
            "in a clone of device-agent run: make install LAB=1\n"
        )
    usage = node("-m", "agent").stdout
    assert [name for name in COMMANDS if f" {name} " not in usage] == ["lab"]
    assert "device-agent lab" not in usage
    for shell in ("bash", "zsh", "fish"):
        script = node("-m", "agent", "completion", shell)
        assert script.returncode == 0
        assert "simulated kubelet" not in script.stdout
        assert "--demo" not in script.stdout

    node = install("LAB=1")
    answer = node("-m", "agent", "lab", "--demo")
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert "All 6 steps succeeded." in answer.stdout
    assert "device-agent lab" in node("-m", "agent").stdout
    assert "--demo" in node("-m", "agent", "completion", "bash").stdout
    program = install.directory / "opt/device-agent/bin/fake-kubelet"
    assert program.read_text().splitlines()[0].startswith("#!/opt/device-agent/bin/python")
    assert "usage: fake-kubelet" in node(program, "--help").stdout
    points = "from importlib.metadata import entry_points; print(*entry_points(group='pytest11', name='fake_kubelet'))"
    assert "device_agent_lab.simulated.pytest_plugin" in node("-c", points).stdout

    install()
    assert find_files(install.directory, "simulated") == []
    assert not program.exists()
