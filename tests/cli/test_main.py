import importlib
import re
import shlex
import subprocess
import sys

import pytest

from agent.cli.main import COMMANDS, MODULES, main

DEVICE_AGENT = (sys.executable, "-m", "agent")


def test_alone_it_says_what_there_is(cli):
    code, out, _ = cli()
    assert code == 0
    assert all(name in out for name in COMMANDS)
    assert cli("--help") == cli("help") == cli()


def test_a_command_that_is_none(cli):
    code, out, err = cli("scna")
    assert (code, out) == (2, "")
    assert "no such command; nearest: scan" in err


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(cli, name):
    code, out, _ = cli(name, "--help")
    assert code == 0
    assert out.startswith(f"usage: device-agent {name}")
    assert cli("--help", name)[1] == out
    assert cli("help", name) == (0, out, "")


def test_help_of_a_command_that_is_none(cli):
    code, out, err = cli("help", "scna")
    assert (code, out) == (2, "")
    assert "no such command; nearest: scan" in err


@pytest.mark.parametrize("name", COMMANDS)
def test_help_has_only_what_the_command_has(cli, name):
    said = re.sub(r"\s+", " ", cli(name, "--help")[1])
    module = importlib.import_module(MODULES.get(name, f"agent.cli.{name}"))
    outputs = getattr(module, "OUTPUTS", ())
    assert (f"-o {'|'.join(('table', *outputs))}" in said) == bool(outputs)
    assert ("--verbose" in said) == getattr(module, "VERBOSE", False)
    assert ("--quiet" in said) == getattr(module, "QUIET", True)


def test_a_flag_that_is_none(cli):
    assert cli("scan", "--bogus")[0] == 2


def test_version(cli):
    assert cli("--version")[1].startswith("device-agent ")
    assert cli("version")[1] == cli("--version")[1]


def test_flags_stand_before_and_after_the_command(cli, tree, config):
    after = cli("scan", "--root", tree.top, "--config", config())
    assert cli("--root", tree.top, "--config", config(), "scan")[:2] == after[:2]


def test_a_defect_is_70_with_its_trace(monkeypatch, capsys):
    from agent.cli import version

    def broken(arguments):
        raise ValueError("it broke")

    monkeypatch.setattr(version, "run", broken)
    assert main(["version"]) == 70
    assert "it broke" in capsys.readouterr().err


def test_ctrl_c_is_130(monkeypatch):
    from agent.cli import version

    def interrupted(arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(version, "run", interrupted)
    assert main(["version"]) == 130


def test_a_root_that_is_neither_tree_nor_recording_is_a_wrong_command_line(tmp_path):
    for root, said in ((tmp_path / "none", "no such directory or file"), ("/etc/passwd", "no recording: ")):
        done = subprocess.run([*DEVICE_AGENT, "--root", str(root), "scan"], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (2, "")
        assert said in done.stderr


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize("command", ["scan", "version", "check"])
def test_closed_streams_lead_to_nowhere(command, closed, tmp_path):
    line = f"{shlex.join(DEVICE_AGENT)} --config {tmp_path} {command} {closed}"
    assert subprocess.run(line, shell=True, check=False).returncode in {0, 1}


@pytest.mark.parametrize("command", ["schema", "class list"])
def test_a_full_disk_is_no_defect(command, tmp_path):
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*DEVICE_AGENT, "--config", tmp_path, *command.split()],
            check=False,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert (done.returncode, done.stderr) == (
        1,
        f"device-agent {command.split()[0]}: the output cannot be written: no space left on the device\n",
    )
