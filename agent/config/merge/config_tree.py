"""What an entry or a class says, as a tree whose leaves know where they were written and what they replaced."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeAlias

from agent.config.language.key_table import EITHER, find_verbs
from agent.config.toml.file_position import FilePosition
from agent.config.toml.finding import Finding
from agent.core.struct import Struct, replace

# Places of branches whose keys are names. The alternatives of an `either` that is one line of its clause: those of
# another file are a further line, for an entry narrows what it uses. A clause that keeps devices out while it holds.
ALTERNATIVES = EITHER
KEEPING_OUT = "keeps out"


class Leaf(Struct):
    """One value, replaced as a whole. `replaced` are the spots whose values it stands in for, the newest first."""

    value: object
    spot: FilePosition
    replaced_spots: tuple[FilePosition, ...] = ()


class RemovedValue(Struct):
    """What `false` took out, kept so that a part reached on another way does not bring it back."""

    spot: FilePosition
    replaced_spots: tuple[FilePosition, ...] = ()


class Branch(Struct):
    """A table: its members merge one by one. `place`: where its keys are known, if they are the language's."""

    members: Mapping[str, Node]
    spot: FilePosition
    place: str = ""

    @property
    def verbs(self) -> tuple[str, ...]:
        """Those of its keys that say what it does, and exclude each other."""
        return find_verbs(self.place, self.members)

    def get_leaf(self, name: str) -> Leaf | None:
        """The value of that name, if there is one."""
        node = self.members.get(name)
        return node if isinstance(node, Leaf) else None

    def get_branch(self, name: str) -> Branch | None:
        """The table of that name, if there is one."""
        node = self.members.get(name)
        return node if isinstance(node, Branch) else None

    def is_on(self, name: str) -> bool:
        """Whether the value of that name is true."""
        leaf = self.get_leaf(name)
        return leaf is not None and leaf.value is True

    def list_branches(self) -> Iterator[tuple[str, Branch]]:
        """Its named tables, in order."""
        for name, node in self.members.items():
            if isinstance(node, Branch):
                yield name, node


class Conflict(Struct):
    """Two used classes say different things here; the first of them, until somebody decides."""

    first_node: Node
    second_node: Node


Node: TypeAlias = Leaf | RemovedValue | Branch | Conflict


def override(base: Branch, own: Branch, findings: list[Finding]) -> Branch:
    """A file's own keys over what it uses; `false` for what is not there is a finding."""
    members = dict(base.members)
    for name, node in own.members.items():
        if isinstance(node, Branch) and node.place == ALTERNATIVES:
            members |= _alternatives_over(members, node, findings)
            continue
        merged = _over(members.get(name), node, findings)
        if merged is not None:
            members[name] = merged
    return Branch(members, own.spot, own.place or base.place)


def combine(first: Branch, second: Branch) -> Branch:
    """Two used classes together; where they differ, and neither took the value from the other, a `Conflict`."""
    members = dict(first.members)
    for name, node in second.members.items():
        if isinstance(node, Branch) and node.place == ALTERNATIVES:
            members |= _alternatives_beside(members, node)
            continue
        known = members.get(name)
        members[name] = node if known is None else _beside(known, node)
    return Branch(members, first.spot, first.place or second.place)


def replace_key(base: Branch, gone: str, own: Branch, new: str) -> tuple[Branch, Branch]:
    """Both, where one key of one's own stands for another of what it goes over."""
    node, other = own.members.get(new), base.members.get(gone)
    if node is None or other is None:
        return base, own
    left = {name: member for name, member in base.members.items() if name != gone}
    return replace(base, members=left), replace(own, members={**own.members, new: _standing_for(node, _spots(other))})


def resolve_conflicts(branch: Branch, path: str = "") -> tuple[Branch, list[tuple[str, FilePosition, FilePosition]]]:
    """The tree without conflicts, the first of two kept; and those that were left, with address and both spots."""
    members: dict[str, Node] = {}
    left: list[tuple[str, FilePosition, FilePosition]] = []
    for name, node in branch.members.items():
        said = EITHER if isinstance(node, Branch) and node.place == ALTERNATIVES else name
        address = f"{path}.{said}" if path else said
        if isinstance(node, Conflict):
            left.append((address, _first_spot(node.first_node), _first_spot(node.second_node)))
            members[name] = _undoubted(node)
        elif isinstance(node, Branch):
            members[name], below = resolve_conflicts(node, address)
            left += below
        else:
            members[name] = node
    return replace(branch, members=members), left


def _alternatives_over(members: Mapping[str, Node], own: Branch, findings: list[Finding]) -> dict[str, Node]:
    """Return the `either` lines of a clause that one's own changes, and the line that it adds.

    An alternative of a known name goes over the one of that name. The others are a line more, which must hold too.
    """
    changed: dict[str, Node] = {}
    new = dict(own.members)
    for key, line in _alternatives(members):
        known = {name: node for name, node in own.members.items() if name in line.members}
        changed[key] = override(line, replace(line, members=known), findings)
        new = {name: node for name, node in new.items() if name not in known}
    added = override(replace(own, members={}), replace(own, members=new), findings)
    if added.members or not own.members:
        changed[_free_key(members)] = added
    return changed


def _alternatives_beside(members: Mapping[str, Node], second: Branch) -> dict[str, Node]:
    """Return the `either` line of another used class: the one written at the same place, or a line more."""
    for key, line in _alternatives(members):
        if line.spot == second.spot:
            return {key: combine(line, second)}
    return {_free_key(members): second}


def _alternatives(members: Mapping[str, Node]) -> Iterator[tuple[str, Branch]]:
    """Yield the `either` lines of a clause, each with its key."""
    for key, node in members.items():
        if isinstance(node, Branch) and node.place == ALTERNATIVES:
            yield key, node


def _free_key(members: Mapping[str, Node]) -> str:
    """Return the key of one more `either` line; behind the first a number follows, which no word has."""
    number = len(list(_alternatives(members)))
    return f"{EITHER} {number + 1}" if number else EITHER


def _over(base: Node | None, own: Node, findings: list[Finding]) -> Node | None:
    match own, base:
        case RemovedValue(spot), None | RemovedValue():
            message = f"{spot.path[-1]} is not there, so false takes nothing out"
            findings.append(spot.make_error("nothing-to-take-out", message, "leave it out", mark="key"))
            return base
        case Branch(), Branch() if not _another_verb(base, own):
            return override(base, own, findings)
        case Branch(), _:
            fresh = override(Branch({}, own.spot, own.place), own, findings)
            return fresh if base is None else _standing_for(fresh, _spots(base))
        case _, None:
            return own
    return _standing_for(own, _spots(base))


def _another_verb(base: Branch, own: Branch) -> bool:
    """Whether one's own does another thing, so that nothing of the base goes on."""
    return bool(base.verbs) and any(verb not in base.members for verb in own.verbs)


def _beside(first: Node, second: Node) -> Node:
    if isinstance(first, Branch) and isinstance(second, Branch) and not _differ(first, second):
        return combine(first, second)
    if isinstance(first, Conflict) or isinstance(second, Conflict):
        return first if isinstance(first, Conflict) else second
    if set(_written(second)) <= {*_replaced(first), *_written(first)}:
        return first
    if set(_written(first)) <= {*_replaced(second), *_written(second)}:
        return second
    if isinstance(first, Leaf) and isinstance(second, Leaf) and _same(first.value, second.value):
        return replace(first, replaced_spots=_each_once(first.replaced_spots, (second.spot,), second.replaced_spots))
    if isinstance(first, RemovedValue) and isinstance(second, RemovedValue):
        return replace(first, replaced_spots=_each_once(first.replaced_spots, (second.spot,), second.replaced_spots))
    return Conflict(first, second)


def _differ(first: Branch, second: Branch) -> bool:
    """Return whether two tables of used classes cannot be one.

    Lines of two classes in one clause that keeps devices out would keep out less than either class wants.
    """
    return _another_verb(first, second) or (first.place == KEEPING_OUT and not _agree(first, second))


def _undoubted(node: Node) -> Node:
    return _undoubted(node.first_node) if isinstance(node, Conflict) else node


def _standing_for(node: Node, spots: tuple[FilePosition, ...]) -> Node:
    """The node, its leaves marked as replacing what stood at those spots."""
    match node:
        case Leaf() | RemovedValue():
            return replace(node, replaced_spots=_each_once(node.replaced_spots, spots))
        case Branch(members):
            return replace(node, members={name: _standing_for(member, spots) for name, member in members.items()})
    return node


def _spots(node: Node | None) -> tuple[FilePosition, ...]:
    """Every spot that a node stands for, replaced ones included and last."""
    return () if node is None else _each_once(_written(node), _replaced(node))


def _written(node: Node) -> tuple[FilePosition, ...]:
    match node:
        case Leaf(_, spot) | RemovedValue(spot):
            return (spot,)
        case Branch(members):
            return _each_once(*(_written(member) for member in members.values()))
        case Conflict(first, second):
            return _each_once(_written(first), _written(second))


def _replaced(node: Node) -> tuple[FilePosition, ...]:
    match node:
        case Leaf(_, _, replaced) | RemovedValue(_, replaced):
            return replaced
        case Branch(members):
            return _each_once(*(_replaced(member) for member in members.values()))
        case Conflict(first, second):
            return _each_once(_replaced(first), _replaced(second))


def _each_once(*spots: tuple[FilePosition, ...]) -> tuple[FilePosition, ...]:
    return tuple(dict.fromkeys(spot for group in spots for spot in group))


def _first_spot(node: Node) -> FilePosition:
    return _first_spot(node.first_node) if isinstance(node, Conflict) else node.spot


def _agree(first: Node, second: Node) -> bool:
    """Return whether two used classes say the same here."""
    match first, second:
        case Branch(mine), Branch(others):
            return mine.keys() == others.keys() and all(_agree(node, others[name]) for name, node in mine.items())
        case Leaf(value), Leaf(other):
            return _same(value, other)
    return isinstance(first, RemovedValue) and isinstance(second, RemovedValue)


def _same(first: object, second: object) -> bool:
    return type(first) is type(second) and first == second
