"""The device nodes that a container gets, judged for what differs between its devices."""

from __future__ import annotations

from collections.abc import Sequence

from agent.config.give.give_sections import GiveSection, When, has_unread_key
from agent.config.merge.config_tree import Branch, Leaf
from agent.config.scope import Scope, WordSignature
from agent.config.toml.file_position import TextPiece
from agent.config.values.templates import CompiledTemplate, compile_path
from agent.core.entry.resource_spec import NODE_NUMBER, NodeGive
from agent.core.language.value import ValueType
from agent.core.struct import replace

_PERMISSIONS = "rwm"  # in the order that the kubelet passes on


def compile_nodes(parts: Sequence[GiveSection], scope: Scope) -> tuple[NodeGive, ...]:
    """The nodes of an entry; each also becomes a word `given.NAME` of the scope, the same for all of one name."""
    nodes: list[NodeGive] = []
    for part in parts:
        for name, member in part.members("nodes"):
            when = part.when(member)
            node, known = _node(name, f"{part.address}.nodes.{name}", member, when, scope)
            scope.node_words[name] = _either(scope.node_words.get(name), known)
            if node is not None and not when.never:
                nodes.append(node)
    return tuple(nodes)


def _either(one: WordSignature | None, other: WordSignature) -> WordSignature:
    return (
        other
        if one is None
        else replace(other, is_list=one.is_list or other.is_list, varies=one.varies or other.varies)
    )


def _node(name: str, address: str, member: Branch, when: When, scope: Scope) -> tuple[NodeGive | None, WordSignature]:
    """A node, and what is known of where it comes out."""
    unknown = WordSignature(ValueType.PATH, varies=not (scope.is_single or scope.has_one_per_container))
    path_leaf = member.get_leaf("path")
    permissions = permissions_of(member.get_leaf("permissions"), scope)
    optional = _switch(member.get_leaf("optional"), "optional", scope)
    if path_leaf is None:
        if scope.has_all_keys and not has_unread_key(member, "give.nodes"):
            message = f"{address} has no path"
            scope.report(member.spot.make_error("missing", message, 'write path = "{node}"', mark="key"))
        return None, unknown
    path = compile_path(path_leaf.spot, path_leaf.value, scope, "a node's path", container=False)
    if path is None or not _no_glob(path, scope):
        return None, unknown
    to_leaf = member.get_leaf("to")
    to = [path] if to_leaf is None else container_paths(to_leaf, scope, of_node=True)
    if to is None:
        return None, unknown
    faults = [fault for target in to if (fault := collision(path, target))]
    for target, message, write in faults:
        scope.report(target.spot.make_error("differs-between-devices", message, write, mark="text"))
    each = path.varies_by_member or when.each
    many = path.is_list or each or len(to) > 1
    known = WordSignature(ValueType.PATH, is_list=many, varies=path.varies or any(target.varies for target in to))
    if permissions is None or optional is None or faults:
        return None, known
    texts = tuple(target.template for target in to)
    origin = path_leaf.spot.origin
    return NodeGive(name, path.template, texts, permissions, optional, origin, each, when.clause), known


def container_paths(leaf: Leaf, scope: Scope, *, of_node: bool = False) -> list[CompiledTemplate] | None:
    """What a `to` says; none, with findings, if a part of it is no path."""
    elements = leaf.spot.list_elements(leaf.value)
    if not elements:
        scope.report(leaf.spot.make_error("type", "an empty list gives nothing", "leave to out, or write a path"))
        return None
    paths = [compile_path(spot, item, scope, "to", container=True, of_node=of_node) for spot, item in elements]
    made = [path for path in paths if path is not None]
    return made if len(made) == len(paths) else None


def collision(
    path: CompiledTemplate, to: CompiledTemplate, things: str = "nodes"
) -> tuple[CompiledTemplate, str, str] | None:
    """Why two things would come out at one container path."""
    if to.template.source.endswith("/") or not (path.is_certain and to.is_certain):
        return None
    words = {slot.word for slot in to.template.slots}
    numbered = NODE_NUMBER in words or (path.is_list and "n" in words)  # by element
    if path.is_list and not to.is_list and not numbered:
        name = f"{to.template.source.rpartition('/')[0]}/"
        return to, "path is a list, and all of it would come out here", f'write "{name}": they keep their names'
    if path.varies_by_member and not to.varies_by_member and not numbered:
        name = f"{to.template.source.rpartition('/')[0]}/"
        message = "several host devices are one device, and the nodes of all would come out here"
        return to, message, f'write "{name}": they keep their names'
    if path.varies and not to.varies:
        message = f"differs between devices: the {things} of two devices of one container would both come out here"
        return to, message, f'write "{to.template.source}{{n}}"'
    return None


def permissions_of(leaf: Leaf | None, scope: Scope) -> str | None:
    """The permissions in their order; `rw` unless said."""
    if leaf is None:
        return "rw"
    letters = leaf.value
    if not isinstance(letters, str):
        scope.report(leaf.spot.make_error("type", "permissions are letters of r, w, m", 'write "rw"'))
        return None
    write = 'write "rw", the default, or "rwm"'
    wrong = [letter for letter in dict.fromkeys(letters) if letter not in _PERMISSIONS]
    if wrong or not letters:
        said = f"{', '.join(wrong)} {'is' if len(wrong) == 1 else 'are'} none of them" if wrong else "this is none"
        message = f"letters are r (read), w (write), m (mknod); {said}"
        scope.report(leaf.spot.make_error("permissions", message, write, mark="text"))
        return None
    ordered = "".join(letter for letter in _PERMISSIONS if letter in letters)
    if len(ordered) != len(letters):
        scope.report(leaf.spot.make_error("permissions", "each letter stands once", f'write "{ordered}"', mark="text"))
        return None
    return ordered


def _switch(leaf: Leaf | None, what: str, scope: Scope) -> bool | None:
    if leaf is None:
        return False
    if isinstance(leaf.value, bool):
        return leaf.value
    scope.report(leaf.spot.make_error("type", f"{what} is true or false, without quotes", "write true"))
    return None


def _no_glob(path: CompiledTemplate, scope: Scope) -> bool:
    """Whether a node's path is one path; a glob in it is reported."""
    for piece in path.template.pieces:
        found = next((character for character in piece if character in "*?["), "") if isinstance(piece, str) else ""
        if found:
            message = "what is given is one node; patterns say what a source is"
            write = f'write source = {{ node = "{path.template.source}" }}, and path = "{{node}}"'
            mark = TextPiece(path.template.source.index(found), 1)
            scope.report(path.spot.make_error("glob", message, write, mark=mark))
            return False
    return True
