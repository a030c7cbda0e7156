"""A program and its arguments, as a leaf of a tree."""

from __future__ import annotations

from agent.config.language.path_rule import path_fault
from agent.config.merge.config_tree import Leaf
from agent.config.scope import Scope
from agent.config.values.templates import Phrase, phrase


def argv_phrases(leaf: Leaf, scope: Scope, *, giving: bool = False) -> tuple[Phrase, ...] | None:
    """The program and its arguments, texts with words; none, with findings, if something is wrong with them.

    The program itself is a path that is written out: no shell looks for it, and no hardware chooses it. giving: it is
    run for a container.
    """
    items = leaf.value if isinstance(leaf.value, list) else []
    found = [
        phrase(leaf.spot.below(index), item, scope, "an argument", giving=giving, may_be_empty=True)
        for index, item in enumerate(items)
    ]
    made = tuple(one for one in found if one is not None)
    if not made or len(made) < len(found):
        return None
    program = made[0]
    if program.text.slots:
        message = "a program is written out: no word says which one is run"
        scope.error(program.spot.error("path", message, 'write for example "/usr/bin/…"', mark="text"))
        return None
    path = program.text.source
    fault = path_fault(path)
    if fault is not None:
        write = fault.write if path.startswith("/") else f'write for example "/usr/bin/{path}"'
        scope.error(program.spot.error("path", f"{fault.message}; no shell looks for a program", write, mark="text"))
        return None
    return made
