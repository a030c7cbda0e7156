"""Groups: the host devices that an entry combines, and the words for the group members."""

from __future__ import annotations

import re

from agent.config.clauses.clause import compile_clause, refuse_empty
from agent.config.language.key_table import OPERATORS
from agent.config.merge.config_tree import Branch, Leaf
from agent.config.scope import ANYTHING, Scope, require_all
from agent.config.toml.file_position import FilePosition, TextPiece
from agent.core.entry.group import Grouping, GroupWord
from agent.core.inventory.member_facts import MEMBER_LISTS
from agent.core.language.clause import Clause
from agent.core.language.template import compute_digest
from agent.scanners import source_kinds

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_DIGITS = 16  # length of the digest


def is_one_group(tree: Branch) -> bool:
    """Return whether all devices form one device, because no word divides them into groups."""
    group = tree.get_branch("group")
    return group is not None and group.get_leaf("by") is None


def list_members(tree: Branch) -> frozenset[str]:
    """Return the names of the group members (`group.parts`), which are words."""
    return frozenset(name for name, _ in tree.list_branches("group", "parts"))


def _check_member_names(group: Branch, scope: Scope) -> None:
    for name, part in group.list_branches("parts"):
        if not _WORD.fullmatch(name):
            message = f"{name} is no word, and the name of a part is one"
            scope.report_error(part.spot, "type", message, "write letters, digits and _", mark="key")
        elif name in _list_known_words(scope):
            message = f"{name} is a word already"
            scope.report_error(part.spot, "type", message, "give the part another name", mark="key")


def _list_known_words(scope: Scope) -> frozenset[str]:
    """Return the existing words."""
    derived_words = scope.entry_words.list_names() if scope.entry_words else ()
    return frozenset(
        {
            *MEMBER_LISTS,
            *OPERATORS,
            *derived_words,
            *(source_kinds.list_words(scope.source.kind) if scope.source else ()),
        }
    )


def compile_group(tree: Branch, scope: Scope) -> Grouping | None:
    """Return the grouping of an entry, or None. Faults are reported."""
    group = tree.get_branch("group")
    if group is None:
        return None
    if tree.get_branch("slots") is not None:
        message = "slots are shares of all that there is, so nothing is put together for them"
        scope.report_error(group.spot, "type", message, "leave out group, or slots", mark="key")
    group_words = _compile_group_words(group.get_leaf("by"), scope)
    parts = group.get_branch("parts")
    _check_member_names(group, scope)
    clauses: dict[str, Clause] = {}
    for name, part in group.list_branches("parts"):
        clauses[name] = compile_clause(f"group.parts.{name}", part, scope)
        message = f"group.parts.{name} says nothing, so every device would be it"
        refuse_empty(part, scope, message, "say which devices are this part")
    claims = group.get_leaf("claims")
    if group.get_leaf("by") is None and scope.has_all_keys:
        if parts is None or not parts.spot.data:
            message = "group says by which word devices are together, or what parts they are"
            scope.report_error(group.spot, "missing", message, 'write for example group = "iommu.group"', mark="key")
        elif claims is not None and claims.value == "all":
            message = "all of a group come along, and no word says what a group is"
            scope.report_error(claims.spot, "missing", message, "add by", mark="text")
    if group_words is None:
        return None
    return Grouping(group_words, claims is not None and claims.value == "all", clauses, _digest_group(tree))


def _compile_group_words(leaf: Leaf | None, scope: Scope) -> tuple[GroupWord, ...] | None:
    """Return the group words, or None. Faults are reported."""
    if leaf is None:
        return ()
    elements = leaf.spot.list_elements(leaf.value)
    if not elements:
        scope.report_error(leaf.spot, "type", "an empty list puts nothing together", 'write for example "iommu.group"')
    return require_all(_compile_group_word(spot, item, scope) for spot, item in elements) or None


def _compile_group_word(spot: FilePosition, value: object, scope: Scope) -> GroupWord | None:
    if not isinstance(value, str):
        scope.report_error(spot, "type", "by is a word of the device", 'write for example "iommu.group"')
        return None
    if "{" in value:
        write = f'write "{value.strip("{}")}"'
        scope.report_error(spot, "text", "by is the name of a word, without braces", write, mark="text")
        return None
    signature = scope.find_word(spot, value, TextPiece(0, len(value)))
    if signature is None:
        return None
    if signature.is_list and signature is not ANYTHING:
        message = f"{value} is a list, and two devices are together if one value is equal"
        scope.report_error(spot, "type", message, "make it a word of one value, by let", mark="text")
        return None
    return GroupWord(value, signature.kind)


def _digest_group(tree: Branch) -> str:
    """Return the digest of all settings that decide the groups, as written."""
    lines: list[str] = []
    for key in ("source", "match", "exclude", "group"):
        node = tree.members.get(key)
        if isinstance(node, Leaf):
            lines.append(f"{key} = {node.value!r}")
        elif isinstance(node, Branch):
            lines += _format_lines(node, key)
    return compute_digest("\n".join(lines), _DIGITS)


def _format_lines(branch: Branch, address: str) -> list[str]:
    lines: list[str] = []
    for key, node in sorted(branch.members.items()):
        if isinstance(node, Leaf):
            lines.append(f"{address}.{key} = {node.value!r}")
        elif isinstance(node, Branch):
            lines += _format_lines(node, f"{address}.{key}")
    return lines
