"""How many files may be open, and when that is said."""

import resource
import subprocess
import sys
from math import inf

import pytest

from agent.host import open_files
from tests.cli.conftest import TOP


def test_the_limit_is_that_of_the_process():
    assert open_files.get_limit() == resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def test_no_limit_is_more_than_enough(monkeypatch):
    monkeypatch.setattr(open_files.resource, "getrlimit", lambda _: (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert open_files.get_limit() > open_files.LEAST_LIMIT
    assert open_files.describe_shortage() == ""


@pytest.mark.parametrize(
    ("limit", "open_", "said"),
    [
        (100, 79, ""),
        (100, 80, "80 of the 100 files that may be open at once are"),
        (1000, 1000, "1,000 of the 1,000 files that may be open at once are"),
        (1000, None, "all of the 1,000 files that may be open at once are"),
        (inf, 1000, ""),
    ],
)
def test_when_it_is_said(monkeypatch, limit, open_, said):
    def listed(path):
        assert path == "/proc/self/fd"
        if open_ is None:
            raise OSError(24, "Too many open files")
        return ["x"] * open_

    monkeypatch.setattr(open_files, "get_limit", lambda: limit)
    monkeypatch.setattr(open_files.os, "listdir", listed)
    assert open_files.describe_shortage() == said


def test_an_agent_that_cannot_begin_says_so_in_a_line(tmp_path):
    command = f"ulimit -n {open_files.LEAST_LIMIT - 1}; exec {sys.executable} -m agent.cli.main run --config {tmp_path}"
    ended = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, cwd=TOP, timeout=60, check=False)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr == (
        "device-agent run: the limit of open files is 63, but the agent needs at least 64: ulimit -n 1024, "
        "LimitNOFILE of the unit\n"
    )
