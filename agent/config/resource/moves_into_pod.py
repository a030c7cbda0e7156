"""`moves_into_pod`: that devices leave the host's view for the pods that hold them, and what tells of it."""

from __future__ import annotations

from agent.config.merge.config_tree import Branch
from agent.config.scope import Scope

_MOVABLE_SOURCES = frozenset({"net", "infiniband", "subsystem"})  # sources whose devices are in a network namespace
_CARRIED_WORDS = ("netdev.name", "rdma.name")  # of what other devices carry, these are


def compile_moves(tree: Branch, scope: Scope) -> tuple[str, ...] | None:
    """The words that tell of what moves; none if that is the device itself, None if nothing does."""
    leaf = tree.get_leaf("moves_into_pod")
    if leaf is None or leaf.value is not True or scope.source is None:
        return None
    for key, devices in (("group", "several host devices together"), ("slots", "all devices together")):
        if tree.get_branch(key) is not None:
            message = f"what moves into a pod is one host device, and {key} gives {devices}"
            scope.report(
                leaf.spot.make_error("type", message, f"write {key} = false, or moves_into_pod = false", mark="key")
            )
            return None
    if scope.source.kind in _MOVABLE_SOURCES:
        return ()
    carried_words = tuple(word for word in _CARRIED_WORDS if scope.has_word(word))
    if not carried_words:
        message = f"a device of source {scope.source.kind} stays on the host, and so does all that it carries"
        scope.report(leaf.spot.make_error("type", message, "leave moves_into_pod out", mark="key"))
        return None
    return carried_words
