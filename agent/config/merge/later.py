"""What a sentence says that the language has and this version has not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from agent.config.language.key_table import BRING_WORDS, LATER, PLACES
from agent.config.language.section_shapes import Shape, form_of
from agent.config.merge.config_tree import Branch, Conflict, RemovedValue
from agent.config.toml.file_position import FilePosition


class Part(NamedTuple):
    """A key that is not there yet: where it was written, its address, and whether it brings words."""

    spot: FilePosition
    address: str
    brings_words: bool


def left_for_later(tree: Branch) -> tuple[Part, ...]:
    """The outermost keys of a merged sentence whose behaviour is not there yet, in its order."""
    return tuple(_parts(tree, tree.place))


def _parts(branch: Branch, place: str, path: str = "") -> Iterator[Part]:
    for key, node in branch.members.items():
        address = f"{path}.{key}" if path else key
        form = form_of(place, key)
        if isinstance(node, (RemovedValue, Conflict)):
            continue
        if PLACES[place][1].get(key) is LATER:
            yield Part(node.spot, address, key in BRING_WORDS)
        elif isinstance(node, Branch) and form.shape is Shape.TABLE:
            yield from _parts(node, form.place, address)
        elif isinstance(node, Branch) and form.shape is Shape.NAMED:
            for name, member in node.branches():
                yield from _parts(member, form.place, f"{address}.{name}")
