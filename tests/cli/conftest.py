import os
import subprocess
import sys
from pathlib import Path

import pytest

from agent.cli.main import main
from tests.tree import Tree
from tests.warm import Warm

TOP = Path(__file__).parents[2]

# What a test that drops its rights has to have imported before: the interpreter's library may be root's alone.
AS_NOBODY = """
import os, sys
import device_agent_lab.command, agent.cli.main, agent.cli.scan, agent.app, aiofiles, readline, uvloop, encodings.idna
try:
    import pyudev.device
except ImportError:
    pass
os.setgroups([]), os.setgid(65534), os.setuid(65534)
sys.exit(agent.cli.main.main(sys.argv[1:]))
"""


WARM = Warm()


def device_agent(*arguments, given="", nobody=False, timeout=240, **environ):
    """The program as a process, without a terminal."""
    clean = {key: value for key, value in os.environ.items() if key not in {"XDG_RUNTIME_DIR", "NO_COLOR"}}
    clean |= {"LC_ALL": "C.UTF-8", "PYTHONPATH": str(TOP), **environ}
    if not nobody and not any(name.startswith(("PYTHON", "LC_")) for name in environ):
        return WARM.run([*arguments], given, clean, timeout)
    start = ["-c", AS_NOBODY] if nobody else ["-m", "agent.cli.main"]
    return subprocess.run(
        [sys.executable, *start, *arguments],
        input=given,
        capture_output=True,
        text=True,
        cwd=TOP,
        env=clean,
        timeout=timeout,
        check=False,
    )


@pytest.fixture
def tree(tmp_path):
    return Tree(tmp_path / "host")


@pytest.fixture
def config(tmp_path):
    """Writes files of a configuration; gives its directory."""
    directory = tmp_path / "etc"
    (directory / "resources.d").mkdir(parents=True)

    def write(text="", name="a.toml"):
        (tmp_path / "new.toml").write_text(text)
        (tmp_path / "new.toml").rename(directory / "resources.d" / name)  # whole at once, for who is watching
        return directory

    return write


@pytest.fixture
def cli(capsys):
    """Runs a command in this process: (exit code, standard output, standard error)."""

    def run(*arguments):
        try:
            code = main([str(each) for each in arguments])
        except SystemExit as end:
            code = end.code
        out, err = capsys.readouterr()
        return code, out, err

    return run
