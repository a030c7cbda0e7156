"""Completion: what a shell offers."""

import shlex
import subprocess

import pytest

from agent.cli.main import COMMANDS

ASK = """
source "$1"
shift
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
COMPREPLY=()
_device_agent
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture
def bash(cli, tmp_path):
    code, script, err = cli("completion", "bash")
    assert (code, err) == (0, "")
    file = tmp_path / "completion.bash"
    file.write_text(script)

    def offered(*words):
        done = subprocess.run(
            ["bash", "--norc", "-c", ASK, "bash", str(file), "device-agent", *words],
            capture_output=True, text=True, check=True, cwd=tmp_path,
        )  # fmt: skip
        assert done.stderr == ""
        return set(done.stdout.splitlines()) - {""}

    return offered


def test_commands_and_their_flags(bash):
    assert bash("") == {*COMMANDS, "help"}
    assert bash("dr") == {"drain"}
    assert bash("drain", "--w") == {"--wait"}
    assert {"--dry-run", "--config", "--help"} <= bash("reload", "-")
    assert bash("--color", "") == {"auto", "always", "never"}
    assert bash("class", "") == {"list", "show"}
    assert bash("completion", "") == {"bash", "zsh", "fish"}


def test_resources_are_those_of_the_files(bash, config):
    directory = config('[[resource]]\nname = "a.example/x"\n[[resource]]\n  name="b.example/{model}"\n')
    assert "a.example/x" in bash("--config", str(directory), "status", "a")
    assert bash("--config", str(directory), "status", "") == {"a.example/x"}
    assert bash("--config", str(directory / "none"), "status", "") == set()
    assert "a.example/x" in bash("--config", str(directory), "explain", "a")
    assert bash("--config", str(directory), "allocate", "a") == {"a.example/x"}


@pytest.mark.parametrize("name", ["$(touch run)", "`touch run`", "a;touch run", "$(>run)"])
def test_names_are_offered_as_words_and_never_run(bash, config, tmp_path, name):
    directory = config(f'[[resource]]\nname = "{name}"\n')
    offered = bash("--config", str(directory), "status", "")
    assert shlex.split(" ".join(offered)) == [name]
    (tmp_path / name.replace("/", "")).touch()
    bash("explain", "")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_others_name_every_command_and_flag(cli, shell):
    code, script, err = cli("completion", shell)
    assert (code, err) == (0, "")
    for name in COMMANDS:
        assert f" {name}" in script or f"'{name}:" in script
    assert "@" not in script.replace('"$@"', "")
    for flag in ("wait", "textfile", "dry-run"):
        assert (f"-l {flag} " if shell == "fish" else f"--{flag}[") in script


def test_a_shell_that_is_none(cli):
    assert cli("completion", "csh")[0] == 2
