"""What a container gets: nodes and variables, judged for what differs between its devices."""

from __future__ import annotations

from agent.config.language import PLACES
from agent.config.scope import Known, Scope
from agent.config.spot import Piece
from agent.config.texts import Phrase, env_phrase, path_phrase, phrase
from agent.config.tree import Branch, Leaf
from agent.core.resource import EnvGive, NodeGive
from agent.core.text import has_control
from agent.core.value import Kind

_PERMISSIONS = "rwm"  # in the order that the kubelet passes on


def compile_nodes(give: Branch | None, scope: Scope) -> tuple[NodeGive, ...]:
    """The nodes of an entry; each also becomes a word `given.NAME` of the scope."""
    branch = give.branch("nodes") if give else None
    nodes: list[NodeGive] = []
    for name, member in branch.branches() if branch else ():
        node, known = _node(name, member, scope)
        scope.given[name] = known
        if node is not None:
            nodes.append(node)
    return tuple(nodes)


def compile_env(give: Branch | None, scope: Scope, resource: str | None) -> tuple[EnvGive, ...]:
    """The variables of an entry, no two under one name."""
    branch = give.branch("env") if give else None
    variables: list[EnvGive] = []
    named: dict[str, str] = {}
    for key, member in branch.branches() if branch else ():
        variable = _variable(key, member, scope, resource)
        if variable is None:
            continue
        name = variable.name.source
        if name in named:
            spot = (member.leaf("name") or member.leaf("value") or Leaf(None, member.spot)).spot
            message = f"give.env.{named[name]} has the name {name} too, and one would be lost"
            scope.error(spot.error("duplicate-name", message, "give it another name"))
            continue
        named[name] = key
        variables.append(variable)
    return tuple(variables)


def _node(name: str, member: Branch, scope: Scope) -> tuple[NodeGive | None, Known]:
    """A node, and what is known of where it comes out."""
    unknown = Known(Kind.PATH, varies=not scope.single)
    path_leaf = member.leaf("path")
    permissions = _permissions(member.leaf("permissions"), scope)
    optional = _switch(member.leaf("optional"), "optional", scope)
    if path_leaf is None:
        if scope.keys_known and not _has_unread_key(member, "give.nodes"):
            message = f"give.nodes.{name} has no path"
            scope.error(member.spot.error("missing", message, 'write path = "{node}"', mark="key"))
        return None, unknown
    path = path_phrase(path_leaf.spot, path_leaf.value, scope, "a node's path", container=False)
    if path is None or not _no_glob(path, scope):
        return None, unknown
    to_leaf = member.leaf("to")
    to = [path] if to_leaf is None else _container_paths(to_leaf, scope)
    if to is None:
        return None, unknown
    faults = [fault for target in to if (fault := _collision(path, target))]
    for target, message, write in faults:
        scope.error(target.spot.error("differs-between-devices", message, write, mark="text"))
    many = path.many or len(to) > 1
    known = Known(Kind.PATH, many=many, varies=path.varies or any(target.varies for target in to))
    if permissions is None or optional is None or faults:
        return None, known
    texts = tuple(target.text for target in to)
    return NodeGive(name, path.text, texts, permissions, optional, path_leaf.spot.origin), known


def _container_paths(leaf: Leaf, scope: Scope) -> list[Phrase] | None:
    items = leaf.value if isinstance(leaf.value, list) else [leaf.value]
    spots = [leaf.spot.below(index) for index in range(len(items))] if isinstance(leaf.value, list) else [leaf.spot]
    if not items:
        scope.error(leaf.spot.error("type", "an empty list gives nothing", "leave to out, or write a path"))
        return None
    paths = [path_phrase(spot, item, scope, "to", container=True) for spot, item in zip(spots, items, strict=True)]
    made = [path for path in paths if path is not None]
    return made if len(made) == len(paths) else None


def _collision(path: Phrase, to: Phrase) -> tuple[Phrase, str, str] | None:
    """Why two nodes would come out at one container path."""
    if to.text.source.endswith("/") or not (path.certain and to.certain):
        return None
    if path.many and not to.many:
        name = f"{to.text.source.rpartition('/')[0]}/"
        return to, "path is a list, and all of it would come out here", f'write "{name}": they keep their names'
    if path.varies and not to.varies:
        message = "differs between devices: the nodes of two devices of one container would both come out here"
        return to, message, f'write "{to.text.source}{{n}}"'
    return None


def _permissions(leaf: Leaf | None, scope: Scope) -> str | None:
    """The permissions in their order; `rw` unless said."""
    if leaf is None:
        return "rw"
    letters = leaf.value
    if not isinstance(letters, str):
        scope.error(leaf.spot.error("type", "permissions are letters of r, w, m", 'write "rw"'))
        return None
    write = 'write "rw", the default, or "rwm"'
    wrong = [letter for letter in dict.fromkeys(letters) if letter not in _PERMISSIONS]
    if wrong or not letters:
        said = f"{', '.join(wrong)} {'is' if len(wrong) == 1 else 'are'} none of them" if wrong else "this is none"
        message = f"letters are r (read), w (write), m (mknod); {said}"
        scope.error(leaf.spot.error("permissions", message, write, mark="text"))
        return None
    ordered = "".join(letter for letter in _PERMISSIONS if letter in letters)
    if len(ordered) != len(letters):
        scope.error(leaf.spot.error("permissions", "each letter stands once", f'write "{ordered}"', mark="text"))
        return None
    return ordered


def _variable(key: str, member: Branch, scope: Scope, resource: str | None) -> EnvGive | None:
    value_leaf = member.leaf("value")
    if value_leaf is None:
        if scope.keys_known and not _has_unread_key(member, "give.env"):
            message = f"give.env.{key} has no value"
            scope.error(member.spot.error("missing", message, 'write value = "…"', mark="key"))
        return None
    name_leaf = member.leaf("name")
    spot, written = (name_leaf.spot, name_leaf.value) if name_leaf else (member.spot, key)
    name = env_phrase(spot, written, scope, resource, mark="text" if name_leaf else "key")
    value = phrase(value_leaf.spot, value_leaf.value, scope, "a variable's value", giving=True, may_be_empty=True)
    join_leaf = member.leaf("join")
    join = _join(join_leaf, scope) if join_leaf else None
    if name is None or value is None:
        return None
    if name.many:
        scope.error(spot.error("type", "a variable's name is one text, and this has a list in it", mark="text"))
        return None
    numbered = any(slot.word in {"n", "id"} for slot in name.text.slots)
    if join_leaf is None and name.certain and value.certain and (value.many or (value.varies and not numbered)):
        message = "differs between devices: add join, or {n} in its name"
        if value.many:
            message = "a list, which needs something between its elements"
        scope.error(value_leaf.spot.error("differs-between-devices", message, 'add join = ","', mark="text"))
        return None
    return EnvGive(key, name.text, value.text, join, value_leaf.spot.origin)


def _join(leaf: Leaf, scope: Scope) -> str | None:
    """What stands between values; none, with a finding, if it cannot be that."""
    if isinstance(leaf.value, str) and not has_control(leaf.value):
        return leaf.value
    scope.error(leaf.spot.error("type", "join is text without control characters", 'write ","'))
    return None


def _switch(leaf: Leaf | None, what: str, scope: Scope) -> bool | None:
    if leaf is None:
        return False
    if isinstance(leaf.value, bool):
        return leaf.value
    scope.error(leaf.spot.error("type", f"{what} is true or false, without quotes"))
    return None


def _has_unread_key(member: Branch, place: str) -> bool:
    """Whether a table has a key with a finding of its own, which may be the one that is missing."""
    data = member.spot.data
    return isinstance(data, dict) and any(not PLACES[place][1].get(key) for key in data)


def _no_glob(path: Phrase, scope: Scope) -> bool:
    """Whether a node's path is one path; a glob in it is reported."""
    for piece in path.text.pieces:
        found = next((character for character in piece if character in "*?["), "") if isinstance(piece, str) else ""
        if found:
            message = "what is given is one node; patterns say what a source is"
            write = f'write source = {{ node = "{path.text.source}" }}, and path = "{{node}}"'
            mark = Piece(path.text.source.index(found), 1)
            scope.error(path.spot.error("glob", message, write, mark=mark))
            return False
    return True
