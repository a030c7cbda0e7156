"""Class onload-stack: what it has run for NFD, and what that writes."""

import subprocess

import pytest

from agent.config.load import load
from agent.core.inventory.dirty_set import ALL_DIRTY
from agent.core.inventory.inventory import Inventory
from agent.scanners.host_reader import HostView
from agent.tracker.look_thread import run_look
from tests.tree import Tree

DIRECTORY = "/etc/kubernetes/node-feature-discovery/features.d"
RELEASE = "/sys/module/onload/version"


def list_programs(top, option, *, loaded=True):
    """Return the programs that an entry of the class requires."""
    (top / "etc/resources.d").mkdir(parents=True)
    (top / "etc/resources.d/a.toml").write_text(f'[[resource]]\nclass = "onload"\n{option}\n')
    specs = load(str(top / "etc")).resources
    tree = Tree(top / "m")
    if loaded:
        tree.file(RELEASE, "8.1.3.40\n")
    look, _ = run_look(HostView(tree.root), specs, Inventory(), ALL_DIRTY)
    return [(one.command.argv, one.runs_once) for one in look.prepare_requests.get(0, ())], tree


def test_the_label_is_written_as_nfd_reads_it_and_written_anew(tmp_path):
    ((argv, once),), tree = list_programs(tmp_path, "options.label = true")
    assert not once
    argv = [part.replace(DIRECTORY, str(tmp_path)).replace(RELEASE, str(tree.at(RELEASE))) for part in argv]
    for release in ("8.1.3.40", "9.0"):
        tree.file(RELEASE, f"{release}\n")
        done = subprocess.run(argv, capture_output=True, text=True, check=True)
        assert done.stdout == ""
        assert (tmp_path / "amd.com-onload").read_text() == f"amd.com/onload.version={release}\n"


@pytest.mark.parametrize(("option", "loaded"), [("", True), ("options.label = true", False)])
def test_nobody_writes_it_unasked_or_without_onload(tmp_path, option, loaded):
    assert list_programs(tmp_path, option, loaded=loaded)[0] == []
