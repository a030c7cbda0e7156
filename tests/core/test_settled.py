"""What is taken over from the look and the assembly before is what going through everything would give."""

import random

import pytest

from agent.config.load import load
from agent.core.inventory.look import Look
from agent.core.inventory.touched import EVERYTHING, Touched
from agent.core.lists.assemble import assemble
from agent.tracker.looking import take_look
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
    seen, told, settled, there = Look(), {}, {}, set()
    for step in range(40):
        touched = set()
        for node in rng.sample(NODES, rng.randrange(3)):
            touched.add(node)
            (tree.at(node).unlink if node in there else lambda node=node: tree.file(node))()
            there ^= {node}
        held = frozenset(rng.sample([node[5:] for node in NODES], 2))
        now = step * 100.0
        seen, _ = take_look(tree.root, specs, seen, Touched(frozenset(touched)) if step else EVERYTHING)
        anew, _ = take_look(tree.root, specs, Look(), EVERYTHING)
        assert seen.sightings == anew.sightings
        assert seen.candidates() == anew.candidates()
        assembly = assemble(seen, specs, held, told, now, settled=settled)
        assert assembly == assemble(anew, specs, held, told, now)
        told, settled = assembly.snapshots, assembly.settled
