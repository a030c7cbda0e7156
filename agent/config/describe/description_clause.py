"""One clause of a description, and the texts of its values. The functions check nothing, because any value must have
a text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from agent.config.merge.config_tree import Branch, Leaf, Node
from agent.config.toml.file_position import FilePosition
from agent.core.struct import Struct, replace


class DescriptionClause(Struct):
    """One clause of a description.

    spot: the file position. None for text without a position.
    level: the indentation below another clause.
    note: a text in brackets.
    """

    text: str
    spot: FilePosition | None = None
    level: int = 0
    note: str = ""

    def indent(self) -> DescriptionClause:
        """Return the clause, indented by one more level."""
        return replace(self, level=self.level + 1)


def describe_node(
    text: str, node: Leaf | Branch, formatter: Callable[[object], str] | None = None, *, level: int = 0
) -> DescriptionClause:
    """Return the clause of a value or table, with the values that its own replaced as a note."""
    return DescriptionClause(
        text, node.spot, level, describe_replaced(*walk_leaves(node), formatter=formatter or format_value)
    )


def format_value(data: object) -> str:
    """Return the text of a TOML value."""
    match data:
        case bool():
            return "yes" if data else "no"
        case "":
            return '""'
        case list():
            return format_list(data)
        case dict():
            return ", ".join(f"{key} = {format_value(item)}" for key, item in data.items()) or "nothing"
    return str(data)


def format_list(items: object, separator: str = ", ") -> str:
    """Return the items of a list as one text. A single value is also accepted."""
    return separator.join(map(format_value, items)) if isinstance(items, list) else format_value(items)


def get_text(branch: Branch, key: str, default: str = "") -> str:
    """Return the text of the value of a key, or the default."""
    leaf = branch.get_leaf(key)
    return default if leaf is None else format_list(leaf.value)


def describe_replaced(*leaves: Leaf | None, formatter: Callable[[object], str] = format_value) -> str:
    """Return the values that these values replaced, in brackets, one for each file position. Equal values are left
    out.
    """
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


def describe_mapping(table: Branch, formatter: Callable[[object], str] = format_value) -> str:
    """Return the values of the keys `map` and `else`, which a table has for a word (`by`)."""
    rows = (table.get_branch("map") or Branch({}, table.spot)).members.items()
    word_name, default_leaf = get_text(table, "by"), table.get_leaf("else")
    texts = [f"{formatter(leaf.value)} if {word_name} is {key}" for key, leaf in rows if isinstance(leaf, Leaf)]
    return ", ".join([*texts, *([f"else {formatter(default_leaf.value)}"] if default_leaf else [])])


def format_location(spot: FilePosition) -> str:
    """Return file name and line. The header of the page names the directory."""
    origin = spot.origin
    return f"{origin.file.rpartition('/')[2]}:{origin.line}"


def walk_leaves(node: Node) -> Iterator[Leaf]:
    """Yield all values of a tree, in order."""
    if isinstance(node, Leaf):
        yield node
    elif isinstance(node, Branch):
        for member in node.members.values():
            yield from walk_leaves(member)
