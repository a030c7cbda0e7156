"""The device nodes of a container, with checks for values that differ between its devices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from agent.config.give.give_sections import GiveCondition, GiveSection
from agent.config.merge.config_tree import Branch, Leaf
from agent.config.scope import Scope, WordSignature, require_all
from agent.config.toml.file_position import TextPiece
from agent.config.values.templates import CompiledTemplate, compile_path
from agent.core.entry.resource_spec import NODE_NUMBER, NodeGive
from agent.core.language.value import ValueType
from agent.core.struct import replace

_PERMISSIONS = "rwm"  # in the order of the kubelet


class CompiledNodes(NamedTuple):
    """Nodes, and the scope in which each name is a word `given.NAME`."""

    nodes: tuple[NodeGive, ...]
    scope: Scope


def compile_nodes(sections: Sequence[GiveSection], scope: Scope) -> CompiledNodes:
    """Return the nodes of an entry. Nodes of one name share the word `given.NAME`."""
    nodes: list[NodeGive] = []
    for section in sections:
        for name, member in section.branch.list_branches("nodes"):
            condition = section.compile_condition(member, scope)
            node, signature = _compile_node(name, f"{section.address}.nodes.{name}", member, condition, scope)
            word = _merge_signatures(scope.node_words.get(name), signature)
            scope = replace(scope, node_words={**scope.node_words, name: word})
            if node is not None and not condition.is_never:
                nodes.append(node)
    return CompiledNodes(tuple(nodes), scope)


def _merge_signatures(earlier: WordSignature | None, later: WordSignature) -> WordSignature:
    return (
        later
        if earlier is None
        else replace(later, is_list=earlier.is_list or later.is_list, varies=earlier.varies or later.varies)
    )


def _compile_node(
    name: str, address: str, member: Branch, condition: GiveCondition, scope: Scope
) -> tuple[NodeGive | None, WordSignature]:
    """Return a node, and the signature of its container path."""
    default_signature = WordSignature(ValueType.PATH, varies=scope.has_several_devices)
    path_leaf = scope.require_leaf(member, "path", f"{address} has no path", 'write path = "{node}"')
    permissions = compile_permissions(member.get_leaf("permissions"), scope)
    if path_leaf is None:
        return None, default_signature
    path = compile_path(path_leaf.spot, path_leaf.value, scope, "a node's path", container=False)
    if path is None or not _is_single_path(path, scope):
        return None, default_signature
    to_leaf = member.get_leaf("to")
    container_paths = (path,) if to_leaf is None else compile_container_paths(to_leaf, scope, of_node=True)
    if container_paths is None:
        return None, default_signature
    faults = [fault for target in container_paths if (fault := find_collision(path, target))]
    for target, message, write in faults:
        scope.report_error(target.spot, "differs-between-devices", message, write, mark="text")
    per_member = path.varies_by_member or condition.per_member
    is_list = path.is_list or per_member or len(container_paths) > 1
    signature = WordSignature(
        ValueType.PATH, is_list=is_list, varies=path.varies or any(target.varies for target in container_paths)
    )
    if permissions is None or faults:
        return None, signature
    texts = tuple(target.template for target in container_paths)
    origin = path_leaf.spot.origin
    return NodeGive(
        name, path.template, texts, permissions, member.is_on("optional"), origin, per_member, condition.clause
    ), signature


def compile_container_paths(leaf: Leaf, scope: Scope, *, of_node: bool = False) -> tuple[CompiledTemplate, ...] | None:
    """Return the container paths of a `to`, or None. Faults are reported."""
    elements = leaf.spot.list_elements(leaf.value)
    if not elements:
        scope.report_error(leaf.spot, "type", "an empty list gives nothing", "leave to out, or write a path")
        return None
    return require_all(
        compile_path(spot, item, scope, "to", container=True, of_node=of_node) for spot, item in elements
    )


def find_collision(
    path: CompiledTemplate, container_path: CompiledTemplate, noun: str = "nodes"
) -> tuple[CompiledTemplate, str, str] | None:
    """Return the fault if two things would have one container path: the path, the message and the fix. Return None
    without a fault.
    """
    if container_path.template.source.endswith("/") or not (path.is_certain and container_path.is_certain):
        return None
    words = {slot.word for slot in container_path.template.slots}
    has_number = NODE_NUMBER in words or (path.is_list and "n" in words)  # one number for each element
    if path.is_list and not container_path.is_list and not has_number:
        name = f"{container_path.template.source.rpartition('/')[0]}/"
        return (
            container_path,
            "path is a list, and all of it would come out here",
            f'write "{name}": they keep their names',
        )
    if path.varies_by_member and not container_path.varies_by_member and not has_number:
        name = f"{container_path.template.source.rpartition('/')[0]}/"
        message = "several host devices are one device, and the nodes of all would come out here"
        return container_path, message, f'write "{name}": they keep their names'
    if path.varies and not container_path.varies:
        message = f"differs between devices: the {noun} of two devices of one container would both come out here"
        return container_path, message, f'write "{container_path.template.source}{{n}}"'
    return None


def compile_permissions(leaf: Leaf | None, scope: Scope) -> str | None:
    """Return the permissions in the order r, w, m, or None. The default is `rw`. Faults are reported."""
    if leaf is None:
        return "rw"
    letters = leaf.value
    if not isinstance(letters, str):
        scope.report_error(leaf.spot, "type", "permissions are letters of r, w, m", 'write "rw"')
        return None
    write = 'write "rw", the default, or "rwm"'
    invalid_letters = [letter for letter in dict.fromkeys(letters) if letter not in _PERMISSIONS]
    if invalid_letters or not letters:
        fault = (
            f"{', '.join(invalid_letters)} {'is' if len(invalid_letters) == 1 else 'are'} none of them"
            if invalid_letters
            else "this is none"
        )
        message = f"letters are r (read), w (write), m (mknod); {fault}"
        scope.report_error(leaf.spot, "permissions", message, write, mark="text")
        return None
    sorted_letters = "".join(letter for letter in _PERMISSIONS if letter in letters)
    if len(sorted_letters) != len(letters):
        scope.report_error(
            leaf.spot, "permissions", "each letter stands once", f'write "{sorted_letters}"', mark="text"
        )
        return None
    return sorted_letters


def _is_single_path(path: CompiledTemplate, scope: Scope) -> bool:
    """Return whether the path of a node is a single path. A glob is reported."""
    for piece in path.template.pieces:
        glob_character = (
            next((character for character in piece if character in "*?["), "") if isinstance(piece, str) else ""
        )
        if glob_character:
            message = "what is given is one node; patterns say what a source is"
            write = f'write source = {{ node = "{path.template.source}" }}, and path = "{{node}}"'
            mark = TextPiece(path.template.source.index(glob_character), 1)
            scope.report_error(path.spot, "glob", message, write, mark=mark)
            return False
    return True
