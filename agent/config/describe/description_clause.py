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

    def indent(self) -> DescriptionClause:
        """The clause, one deeper."""
        return self._replace(level=self.level + 1)


def format_value(data: object) -> str:
    """A value of TOML as people say it."""
    match data:
        case bool():
            return "yes" if data else "no"
        case "":
            return '""'
        case list():
            return format_list(data)
        case dict():
            return ", ".join(f"{key} = {format_value(inner)}" for key, inner in data.items()) or "nothing"
    return str(data)


def format_list(items: object, separator: str = ", ") -> str:
    """The items of a list, or the one value that stands for it."""
    return separator.join(map(format_value, items)) if isinstance(items, list) else format_value(items)


def get_text(branch: Branch, key: str, default: str = "") -> str:
    """The value under a key as it is said; what else is said if there is none."""
    leaf = branch.get_leaf(key)
    return default if leaf is None else format_list(leaf.value)


def describe_replaced(*leaves: Leaf | None, formatter: Callable[[object], str] = format_value) -> str:
    """What these values replaced, in brackets: of each place one; nothing where it was the same."""
    replaced_texts: dict[tuple[str, int], str] = {}
    for leaf in leaves:
        if leaf is None or not leaf.replaced_spots:
            continue
        spot = leaf.replaced_spots[0]
        replaced_value = spot.data
        if replaced_value != leaf.value:
            origin = spot.origin
            replaced_texts.setdefault(
                (origin.file, origin.line), f"instead of {formatter(replaced_value)}, {format_location(spot)}"
            )
    return f"[{'; '.join(replaced_texts.values())}]" if replaced_texts else ""


def format_location(spot: FilePosition) -> str:
    """File and line, the file without its directory: which one it is the header says."""
    origin = spot.origin
    return f"{origin.file.rpartition('/')[2]}:{origin.line}"


def walk_leaves(node: Node) -> Iterator[Leaf]:
    """All values of a tree, in order."""
    if isinstance(node, Leaf):
        yield node
    elif isinstance(node, Branch):
        for member in node.members.values():
            yield from walk_leaves(member)
