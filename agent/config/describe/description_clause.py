"""One clause of a sentence that is read back, and how values are said in it. Nothing here judges: whatever is written
can be said.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from agent.config.merge.config_tree import Branch, Leaf, Node
from agent.config.toml.file_position import FilePosition


class DescriptionClause(NamedTuple):
    """A clause: its words, where it was written, how deep it stands below another, and a note in brackets.

    `spot` is None for what nobody wrote.
    """

    text: str
    spot: FilePosition | None = None
    level: int = 0
    note: str = ""

    def below(self) -> DescriptionClause:
        """The clause, one deeper."""
        return self._replace(level=self.level + 1)


def value(of: object) -> str:
    """A value of TOML as people say it."""
    match of:
        case bool():
            return "yes" if of else "no"
        case "":
            return '""'
        case list():
            return listed(of)
        case dict():
            return ", ".join(f"{key} = {value(inner)}" for key, inner in of.items()) or "nothing"
    return str(of)


def listed(of: object, between: str = ", ") -> str:
    """The items of a list, or the one value that stands for it."""
    return between.join(map(value, of)) if isinstance(of, list) else value(of)


def text_of(branch: Branch, key: str, otherwise: str = "") -> str:
    """The value under a key as it is said; what else is said if there is none."""
    leaf = branch.get_leaf(key)
    return otherwise if leaf is None else listed(leaf.value)


def instead(*leaves: Leaf | None, say: Callable[[object], str] = value) -> str:
    """What these values replaced, in brackets: of each place one; nothing where it was the same."""
    olds: dict[tuple[str, int], str] = {}
    for leaf in leaves:
        if leaf is None or not leaf.replaced_spots:
            continue
        spot = leaf.replaced_spots[0]
        old = spot.data
        if old != leaf.value:
            origin = spot.origin
            olds.setdefault((origin.file, origin.line), f"instead of {say(old)}, {place(spot)}")
    return f"[{'; '.join(olds.values())}]" if olds else ""


def place(spot: FilePosition) -> str:
    """File and line, the file without its directory: which one it is the header says."""
    origin = spot.origin
    return f"{origin.file.rpartition('/')[2]}:{origin.line}"


def leaves(node: Node) -> Iterator[Leaf]:
    """All values of a tree, in order."""
    if isinstance(node, Leaf):
        yield node
    elif isinstance(node, Branch):
        for member in node.members.values():
            yield from leaves(member)
