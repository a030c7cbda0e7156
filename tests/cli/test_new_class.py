"""The guide for a class of one's own, docs/new-class.md, followed to the letter in a copy of the project."""

import os
import re
import shutil
import subprocess
import sys

import pytest

from agent.config.load import load_with_entries
from agent.config.sources import get_source_kind
from tests.cli.conftest import TOP
from tests.cli.test_docs import COMMAND, blocks


@pytest.fixture
def clone(tmp_path):
    """What of the project the guide uses, and the programs by the names that it has for them."""
    for name in ("agent", "tests", "docs"):
        shutil.copytree(TOP / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"), symlinks=True)
    shutil.copy(TOP / "pyproject.toml", tmp_path)
    (tmp_path / ".venv/bin").mkdir(parents=True)
    for name, command in (("python", ""), ("device-agent", " -m agent.cli.main")):
        program = tmp_path / ".venv/bin" / name
        program.write_text(f'#!/bin/sh\nexec {sys.executable}{command} "$@"\n')
        program.chmod(0o755)
    return tmp_path


@pytest.mark.timeout(1800)  # two dozen commands, each a process, the last one a pytest
def test_the_guide_ends_in_a_class_with_a_fixture_that_passes(clone):
    """Files are written and commands run in the order of the page; what it shows of their output is there."""
    path = f"{clone}/.venv/bin:{os.environ['PATH']}"
    environ = {**os.environ, "PYTHONPATH": str(clone), "LC_ALL": "C.UTF-8", "PATH": path}
    environ.pop("PYTEST_ADDOPTS", None)
    for kind, text in blocks("docs/new-class.md"):
        if kind == "console":
            for command, shown in COMMAND.findall(text):
                done = subprocess.run(
                    ["bash", "-euo", "pipefail", "-c", command],
                    cwd=clone, env=environ, capture_output=True, text=True, timeout=900, check=False,
                )  # fmt: skip
                assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
                assert shown in done.stdout, f"{command}: {done.stdout}"
        else:
            name, _, said = text.removeprefix("# ").partition("\n")
            (clone / name).parent.mkdir(parents=True, exist_ok=True)
            (clone / name).write_text(said)
    assert "0000:af:00.0-lumen" in (clone / "docs/classes/lumen.md").read_text()


def test_the_classes_that_it_names_have_the_sources_that_it_says():
    studied = load_with_entries(os.devnull)
    rows = re.findall(r"^\| [^|]+ \| ([^|]+) \| `([\w-]+)` \|$", (TOP / "docs/new-class.md").read_text(), re.MULTILINE)
    assert len(rows) == 10
    for source, name in rows:
        tree = studied.library.get_class(name).tree
        assert re.search(rf"any|\b{get_source_kind(tree.get_leaf('source').value)}\b", source), name
        for key in ("join", "group"):
            assert (key in tree.members) or (f"`{key}`" not in source), name
