"""Reused results of the previous look and lists equal those of a full evaluation, also after drains and reloads."""

import random

import pytest

from agent.config.load import load
from agent.core.health.drain_overlay import Drain, DrainOverlay, DrainSet
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
    all_specs, drains, overlay = specs, DrainSet(), DrainOverlay()
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
        if not rng.randrange(5):  # an administrator drains or undrains
            drains = DrainSet({node: Drain("RMA", 1.0) for node in rng.sample(NODES, rng.randrange(3))})
            drains = drains.add_resource("example.com/a", Drain("", 2.0)) if rng.randrange(2) else drains
        is_reload = not rng.randrange(8)
        if is_reload:
            specs = tuple(rng.sample(all_specs, rng.randrange(2, 5)))
        dirty_set = ALL_DIRTY if is_reload or not step or not rng.randrange(8) else DirtySet(frozenset(touched))
        seen, _ = run_look(HostView(tree.root), specs, seen, dirty_set)
        anew, _ = run_look(HostView(tree.root), specs, Inventory(), ALL_DIRTY)
        assert seen.match_results == anew.match_results
        assert seen.get_resource_candidates() == anew.get_resource_candidates()
        drained = overlay.update(seen.get_resource_candidates(), drains)
        assembly = build_lists(seen, specs, held, told, now, candidates=drained, unchanged_lists=settled)
        drained_anew = DrainOverlay().update(anew.get_resource_candidates(), drains)
        assert assembly == build_lists(anew, specs, held, told, now, candidates=drained_anew)
        told, settled = assembly.lists, assembly.unchanged_lists
