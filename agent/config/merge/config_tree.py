"""The tree of an entry or a class. Each leaf knows its position and the positions that it replaces."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeAlias

from agent.config.language.key_table import EITHER, find_verbs
from agent.config.toml.file_position import FilePosition
from agent.config.toml.finding import Finding
from agent.core.struct import Struct, replace

# Places of branches whose keys are names.
# ALTERNATIVES: an `either` that is one line of its clause. The alternatives of another file are one more line,
# because an entry narrows the classes that it uses.
# KEEPING_OUT: a clause that excludes devices while it matches.
ALTERNATIVES = EITHER
KEEPING_OUT = "keeps out"


class Leaf(Struct):
    """One value, replaced as a whole. `replaced_spots` are the positions that it replaces, the newest first."""

    value: object
    spot: FilePosition
    replaced_spots: tuple[FilePosition, ...] = ()


class RemovedValue(Struct):
    """A key that `false` removes. The node stays, so that another used class cannot add the key again."""

    spot: FilePosition
    replaced_spots: tuple[FilePosition, ...] = ()


class Branch(Struct):
    """A table with members that merge one by one. `place` is the place of its keys, if they belong to the language."""

    members: Mapping[str, Node]
    spot: FilePosition
    place: str = ""

    @property
    def verbs(self) -> tuple[str, ...]:
        """Return its keys that decide the purpose of the table and exclude each other."""
        return find_verbs(self.place, self.members)

    def get_leaf(self, name: str) -> Leaf | None:
        """Return the value with this name, or None."""
        node = self.members.get(name)
        return node if isinstance(node, Leaf) else None

    def get_branch(self, name: str) -> Branch | None:
        """Return the table with this name, or None."""
        node = self.members.get(name)
        return node if isinstance(node, Branch) else None

    def is_on(self, name: str) -> bool:
        """Return whether the value with this name is true."""
        leaf = self.get_leaf(name)
        return leaf is not None and leaf.value is True

    def list_branches(self, *path: str) -> Iterator[tuple[str, Branch]]:
        """Yield the named tables of the table at a path, in order. Without a path, yield its own."""
        if path:
            inner = self.get_branch(path[0])
            yield from inner.list_branches(*path[1:]) if inner else ()
            return
        for name, node in self.members.items():
            if isinstance(node, Branch):
                yield name, node


class Conflict(Struct):
    """Two used classes with different values for one key. The first is in use until the file decides."""

    first_node: Node
    second_node: Node


Node: TypeAlias = Leaf | RemovedValue | Branch | Conflict


def override(base: Branch, own_keys: Branch, findings: list[Finding]) -> Branch:
    """Merge the own keys of a file over its base. `false` for a missing key is a finding."""
    members = dict(base.members)
    for name, node in own_keys.members.items():
        if isinstance(node, Branch) and node.place == ALTERNATIVES:
            members |= _override_alternatives(members, node, findings)
            continue
        merged = _override_node(members.get(name), node, findings)
        if merged is not None:
            members[name] = merged
    return Branch(members, own_keys.spot, own_keys.place or base.place)


def combine(first_branch: Branch, second_branch: Branch) -> Branch:
    """Combine two used classes.

    Where they differ and neither replaced the value of the other, the result has a `Conflict`.
    """
    members = dict(first_branch.members)
    for name, node in second_branch.members.items():
        if isinstance(node, Branch) and node.place == ALTERNATIVES:
            members |= _combine_alternatives(members, node)
            continue
        existing = members.get(name)
        members[name] = node if existing is None else _combine_nodes(existing, node)
    return Branch(members, first_branch.spot, first_branch.place or second_branch.place)


def replace_key(base: Branch, replaced_key: str, own_keys: Branch, key: str) -> tuple[Branch, Branch]:
    """Return base and own keys, where an own key replaces another key of the base."""
    node, other = own_keys.members.get(key), base.members.get(replaced_key)
    if node is None or other is None:
        return base, own_keys
    remaining = {name: member for name, member in base.members.items() if name != replaced_key}
    return replace(base, members=remaining), replace(
        own_keys, members={**own_keys.members, key: _mark_replaced(node, _list_all_spots(other))}
    )


def resolve_conflicts(branch: Branch, path: str = "") -> tuple[Branch, list[tuple[str, FilePosition, FilePosition]]]:
    """Return the tree with the first value of each conflict, and the conflicts with address and both positions."""
    members: dict[str, Node] = {}
    conflicts: list[tuple[str, FilePosition, FilePosition]] = []
    for name, node in branch.members.items():
        display_name = EITHER if isinstance(node, Branch) and node.place == ALTERNATIVES else name
        address = f"{path}.{display_name}" if path else display_name
        if isinstance(node, Conflict):
            conflicts.append((address, _find_first_spot(node.first_node), _find_first_spot(node.second_node)))
            members[name] = _resolve_conflict(node)
        elif isinstance(node, Branch):
            members[name], branch_conflicts = resolve_conflicts(node, address)
            conflicts += branch_conflicts
        else:
            members[name] = node
    return replace(branch, members=members), conflicts


def _override_alternatives(members: Mapping[str, Node], own_line: Branch, findings: list[Finding]) -> dict[str, Node]:
    """Return the `either` lines of a clause that the own line changes or adds.

    An alternative with a known name replaces that alternative. The others form one more line, which must also match.
    """
    lines: dict[str, Node] = {}
    new_members = dict(own_line.members)
    for key, line in _list_alternatives(members):
        shared_members = {name: node for name, node in own_line.members.items() if name in line.members}
        lines[key] = override(line, replace(line, members=shared_members), findings)
        new_members = {name: node for name, node in new_members.items() if name not in shared_members}
    new_line = override(replace(own_line, members={}), replace(own_line, members=new_members), findings)
    if new_line.members or not own_line.members:
        lines[_make_free_key(members)] = new_line
    return lines


def _combine_alternatives(members: Mapping[str, Node], second_line: Branch) -> dict[str, Node]:
    """Return the `either` line of another used class: the line with the same position, or one more line."""
    for key, line in _list_alternatives(members):
        if line.spot == second_line.spot:
            return {key: combine(line, second_line)}
    return {_make_free_key(members): second_line}


def _list_alternatives(members: Mapping[str, Node]) -> Iterator[tuple[str, Branch]]:
    """Yield the `either` lines of a clause, each with its key."""
    for key, node in members.items():
        if isinstance(node, Branch) and node.place == ALTERNATIVES:
            yield key, node


def _make_free_key(members: Mapping[str, Node]) -> str:
    """Return the key of one more `either` line. A number follows the first key, and no word contains a space."""
    number = len(list(_list_alternatives(members)))
    return f"{EITHER} {number + 1}" if number else EITHER


def _override_node(base: Node | None, own_node: Node, findings: list[Finding]) -> Node | None:
    match own_node, base:
        case RemovedValue(spot), None | RemovedValue():
            message = f"{spot.path[-1]} is not there, so false takes nothing out"
            findings.append(spot.make_error("nothing-to-take-out", message, "leave it out", mark="key"))
            return base
        case Branch(), Branch() if not _has_other_verb(base, own_node):
            return override(base, own_node, findings)
        case Branch(), _:
            own_branch = override(Branch({}, own_node.spot, own_node.place), own_node, findings)
            return own_branch if base is None else _mark_replaced(own_branch, _list_all_spots(base))
        case _, None:
            return own_node
    return _mark_replaced(own_node, _list_all_spots(base))


def _has_other_verb(base: Branch, own_branch: Branch) -> bool:
    """Return whether the own table has another purpose, so that no key of the base stays."""
    return bool(base.verbs) and any(verb not in base.members for verb in own_branch.verbs)


def _combine_nodes(first_node: Node, second_node: Node) -> Node:
    if isinstance(first_node, Branch) and isinstance(second_node, Branch) and not _differ(first_node, second_node):
        return combine(first_node, second_node)
    if isinstance(first_node, Conflict) or isinstance(second_node, Conflict):
        return first_node if isinstance(first_node, Conflict) else second_node
    if set(_list_spots(second_node)) <= {*_list_replaced_spots(first_node), *_list_spots(first_node)}:
        return first_node
    if set(_list_spots(first_node)) <= {*_list_replaced_spots(second_node), *_list_spots(second_node)}:
        return second_node
    if (
        isinstance(first_node, Leaf)
        and isinstance(second_node, Leaf)
        and _is_same_value(first_node.value, second_node.value)
    ):
        return replace(
            first_node,
            replaced_spots=_merge_spots(first_node.replaced_spots, (second_node.spot,), second_node.replaced_spots),
        )
    if isinstance(first_node, RemovedValue) and isinstance(second_node, RemovedValue):
        return replace(
            first_node,
            replaced_spots=_merge_spots(first_node.replaced_spots, (second_node.spot,), second_node.replaced_spots),
        )
    return Conflict(first_node, second_node)


def _differ(first_branch: Branch, second_branch: Branch) -> bool:
    """Return whether two tables of used classes cannot be one.

    A clause that excludes devices would exclude fewer devices with the lines of two classes.
    """
    return _has_other_verb(first_branch, second_branch) or (
        first_branch.place == KEEPING_OUT and not _agree(first_branch, second_branch)
    )


def _resolve_conflict(node: Node) -> Node:
    return _resolve_conflict(node.first_node) if isinstance(node, Conflict) else node


def _mark_replaced(node: Node, spots: tuple[FilePosition, ...]) -> Node:
    """Return the node with leaves that replace the values at these positions."""
    match node:
        case Leaf() | RemovedValue():
            return replace(node, replaced_spots=_merge_spots(node.replaced_spots, spots))
        case Branch(members):
            return replace(node, members={name: _mark_replaced(member, spots) for name, member in members.items()})
    return node


def _list_all_spots(node: Node | None) -> tuple[FilePosition, ...]:
    """Return all positions of a node, first its own and then the replaced ones."""
    return () if node is None else _merge_spots(_list_spots(node), _list_replaced_spots(node))


def _list_spots(node: Node) -> tuple[FilePosition, ...]:
    match node:
        case Leaf(_, spot) | RemovedValue(spot):
            return (spot,)
        case Branch(members):
            return _merge_spots(*(_list_spots(member) for member in members.values()))
        case Conflict(first_node, second_node):
            return _merge_spots(_list_spots(first_node), _list_spots(second_node))


def _list_replaced_spots(node: Node) -> tuple[FilePosition, ...]:
    match node:
        case Leaf(_, _, spots) | RemovedValue(_, spots):
            return spots
        case Branch(members):
            return _merge_spots(*(_list_replaced_spots(member) for member in members.values()))
        case Conflict(first_node, second_node):
            return _merge_spots(_list_replaced_spots(first_node), _list_replaced_spots(second_node))


def _merge_spots(*spots: tuple[FilePosition, ...]) -> tuple[FilePosition, ...]:
    return tuple(dict.fromkeys(spot for group in spots for spot in group))


def _find_first_spot(node: Node) -> FilePosition:
    return _find_first_spot(node.first_node) if isinstance(node, Conflict) else node.spot


def _agree(first_node: Node, second_node: Node) -> bool:
    """Return whether two nodes of used classes have the same values."""
    match first_node, second_node:
        case Branch(first_members), Branch(second_members):
            return first_members.keys() == second_members.keys() and all(
                _agree(node, second_members[name]) for name, node in first_members.items()
            )
        case Leaf(value), Leaf(other):
            return _is_same_value(value, other)
    return isinstance(first_node, RemovedValue) and isinstance(second_node, RemovedValue)


def _is_same_value(first_value: object, second_value: object) -> bool:
    return type(first_value) is type(second_value) and first_value == second_value
