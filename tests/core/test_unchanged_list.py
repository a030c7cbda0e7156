"""Reused results of the previous look and lists equal those of a full evaluation."""

import random

import pytest

from agent.config.load import load
from agent.core.inventory.dirty_set import ALL_DIRTY, DirtySet
from agent.core.inventory.inventory import Inventory
from agent.core.lists.build_lists import build_lists
from agent.scanners.host_reader import HostView
from agent.tracker.look_thread import run_look
from tests.tree import Tree

ENTRIES = "".join(
    f'[[resource]]\nname = "example.com/{name}"\nsource = {{ node = "/dev/{glob}" }}\n'
    f'[resource.give]\nnodes = {{ it = "{{node}}" }}\n'
    for name, glob in (("a", "a*"), ("b", "b*"), ("ones", "[abc]1"), ("c", "c*"))
)
NODES = [f"/dev/{letter}{number}" for letter in "abc" for number in range(4)]


@pytest.mark.parametrize("seed", range(12))
def test_nothing_is_missed(tmp_path, seed):
    rng = random.Random(seed)
    (tmp_path / "resources.d").mkdir()
    (tmp_path / "resources.d" / "x.toml").write_text(ENTRIES)
    specs = load(str(tmp_path)).resources
    assert len(specs) == 4
    tree = Tree(tmp_path / "machine")
    tree.file("/.device-nodes", "".join(f"c 240:{number} {node}\n" for number, node in enumerate(NODES)))
    seen, told, settled, there = Inventory(), {}, {}, set()
    for step in range(40):
        touched = set()
        for node in rng.sample(NODES, rng.randrange(3)):
            touched.add(node)
            (tree.at(node).unlink if node in there else lambda node=node: tree.file(node))()
            there ^= {node}
        held = frozenset(rng.sample([node[5:] for node in NODES], 2))
        now = step * 100.0
        seen, _ = run_look(HostView(tree.root), specs, seen, DirtySet(frozenset(touched)) if step else ALL_DIRTY)
        anew, _ = run_look(HostView(tree.root), specs, Inventory(), ALL_DIRTY)
        assert seen.match_results == anew.match_results
        assert seen.get_resource_candidates() == anew.get_resource_candidates()
        assembly = build_lists(seen, specs, held, told, now, unchanged_lists=settled)
        assert assembly == build_lists(anew, specs, held, told, now)
        told, settled = assembly.lists, assembly.unchanged_lists
