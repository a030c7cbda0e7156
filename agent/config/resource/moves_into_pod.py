"""Devices that move into a pod (`moves_into_pod`), and the words that change when they do."""

from __future__ import annotations

from agent.config.merge.config_tree import Branch
from agent.config.scope import Scope

_MOVABLE_SOURCES = frozenset({"net", "infiniband", "subsystem"})  # their devices belong to a network namespace
_CARRIED_WORDS = ("netdev.name", "rdma.name")  # devices below other devices that belong to a network namespace


def compile_moves(tree: Branch, scope: Scope) -> tuple[str, ...] | None:
    """Return the words about what moves. An empty tuple means that the device itself moves. None means that nothing
    moves.
    """
    leaf = tree.get_leaf("moves_into_pod")
    if leaf is None or leaf.value is not True or scope.source is None:
        return None
    for key, devices in (("group", "several host devices together"), ("slots", "all devices together")):
        if tree.get_branch(key) is not None:
            message = f"what moves into a pod is one host device, and {key} gives {devices}"
            scope.report_error(
                leaf.spot, "type", message, f"write {key} = false, or moves_into_pod = false", mark="key"
            )
            return None
    if scope.source.kind in _MOVABLE_SOURCES:
        return ()
    carried_words = tuple(word for word in _CARRIED_WORDS if scope.has_word(word))
    if not carried_words:
        message = f"a device of source {scope.source.kind} stays on the host, and so does all that it carries"
        scope.report_error(leaf.spot, "type", message, "leave moves_into_pod out", mark="key")
        return None
    return carried_words
