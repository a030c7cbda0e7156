"""Stability of device IDs: what each ID template follows. A user needs this before relying on an ID."""

from __future__ import annotations

from collections.abc import Iterator

from agent.config.describe.description_clause import format_value, get_text
from agent.config.merge.config_tree import Branch
from agent.config.sources import get_source_kind
from agent.core.language.template import Slot, TemplateError, parse
from agent.scanners import source_kinds

# Last parts of words, most significant first, and what an ID with such a word follows.
_FOLLOWS = (
    (frozenset({"serial", "uuid", "wwid"}), "the device itself, wherever it is plugged in"),
    (frozenset({"address", "slot"}), "the PCI slot: another card in it has the same id"),
    (frozenset({"path_id"}), "the place where it is plugged in"),
    (frozenset({"port", "hub"}), "the USB port, where the machine has one USB controller"),
    (frozenset({"name", "below_dev", "node"}), "the kernel's name for it"),
)


def describe_id_stability(tree: Branch) -> Iterator[str]:
    """Yield one line for each ID template of a class or entry. A class without ID templates yields nothing."""
    accepted_reason = (tree.get_branch("accept") or Branch({}, tree.spot)).get_leaf("unstable-id")
    if accepted_reason is not None:
        yield f"may be dealt anew: {format_value(accepted_reason.value)}"
    if "slots" in tree.members:
        yield "slots are counted: an id stays, whichever device is behind it"
        return
    source, id_leaf = tree.get_leaf("source"), tree.get_leaf("id")
    if id_leaf is None and source is not None and _is_one_node(source.value):
        yield "follows its path, which stays the same"
        return
    ids = id_leaf.value if id_leaf else _get_default_ids(get_source_kind(source.value) if source else "")
    alternatives = ids if isinstance(ids, list | tuple) else (ids,)
    for text in alternatives:
        follows = _find_stability(str(text), tree)
        if follows:
            yield f"{f'{format_value(text)} ' if len(alternatives) > 1 else ''}follows {follows}"


def _is_one_node(source: object) -> bool:
    path = source.get("node") if isinstance(source, dict) else None
    return isinstance(path, str) and not any(mark in path for mark in "*?[{")


def _get_default_ids(kind: str) -> tuple[str, ...]:
    return source_kinds.get_default_ids(kind) if kind in source_kinds.KINDS else ()


def _find_stability(text: str, tree: Branch) -> str:
    """Return what the most significant word of a template follows. Return an empty string for a template without
    such a word.
    """
    try:
        words = [piece.word for piece in parse(text).pieces if isinstance(piece, Slot)]
    except TemplateError:
        return ""
    last = {_find_telling_part(word, tree) for word in words}
    return next((follows for telling, follows in _FOLLOWS if telling & last), "")


def _find_telling_part(word: str, tree: Branch) -> str:
    """Return the last part of a word. For a derived word, only its type or its name is certain."""
    let = tree.get_branch("let")
    word_branch = let.get_branch(word) if let else None
    if word_branch is None:
        return word.rpartition(".")[2]
    return "address" if get_text(word_branch, "type") == "pci" else word if word in _FOLLOWS[0][0] else ""
