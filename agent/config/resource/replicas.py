"""Shares (`replicas`): how many containers can share one device. The device list of the kubelet limits the number."""

from __future__ import annotations

from agent.config.merge.config_tree import Branch, Leaf
from agent.config.resource.ids import compute_shortest_id
from agent.config.scope import Scope
from agent.config.values.templates import CompiledTemplate
from agent.core.entry.resource_spec import SHARE_MARK, ShareMap
from agent.core.inventory.device import SHARE_SUFFIX, compute_device_bytes
from agent.core.language.glob import Glob, PatternError, parse
from agent.core.language.template import ID_LIMIT
from agent.core.language.value import OperandError, ValueType, format_scalar, parse_operand
from agent.core.lists.build_lists import MAX_LIST_BYTES
from agent.core.struct import Struct


class Shares(Struct):
    """The number of shares of a device: constant, or by a word. Both are None if a device has no shares."""

    number: int | None = None
    share_map: ShareMap | None = None
    suffix: str = SHARE_MARK


def compile_shares(tree: Branch, scope: Scope, ids: tuple[CompiledTemplate, ...]) -> Shares:
    """Return the shares of each device. `replicas = 1` means no shares."""
    branch = tree.get_branch("replicas")
    if branch is None:
        return Shares()
    suffix = _compile_suffix(branch.get_leaf("suffix"), scope)
    if branch.get_leaf("by") is None:
        for key in ("map", "else"):
            node = branch.get_leaf(key) or branch.get_branch(key)
            if node is not None and scope.has_all_keys:
                message = f"replicas.{key} is for what a word says, and no word is named"
                scope.report_error(node.spot, "missing", message, 'add by = "…"', mark="key")
        count = _compile_replicas(branch.get_leaf("count"), scope, ids, suffix)
        return Shares() if count in {None, 1} else Shares(count, suffix=suffix)
    share_map = _compile_share_map(branch, scope)
    if share_map is None:
        return Shares(suffix=suffix)
    largest_count = max((*(count for _, count in (*share_map.counts, *share_map.patterns)), share_map.default or 1))
    _check_list_size(branch.get_leaf("by"), largest_count, scope, ids, suffix)
    return Shares(share_map=share_map, suffix=suffix)


def _compile_replicas(leaf: Leaf | None, scope: Scope, ids: tuple[CompiledTemplate, ...], suffix: str) -> int | None:
    if leaf is None:
        return None
    count = _compile_count(leaf, scope, "replicas says how many containers may share one device")
    return count if count is None or _check_list_size(leaf, count, scope, ids, suffix) else None


def _compile_count(leaf: Leaf, scope: Scope, subject: str) -> int | None:
    count = leaf.value
    if isinstance(count, int) and not isinstance(count, bool) and count >= 1:
        return count
    scope.report_error(leaf.spot, "type", f"{subject}: a whole number from 1", "write for example 4")
    return None


def _compile_suffix(leaf: Leaf | None, scope: Scope) -> str:
    """Return the text between device ID and share number. It begins with text that no device ID contains."""
    if leaf is None:
        return SHARE_MARK
    if isinstance(leaf.value, str) and SHARE_SUFFIX.fullmatch(leaf.value):
        return leaf.value
    message = f'a suffix is "{SHARE_MARK}", perhaps with a word behind it: no id of a device has that in it'
    scope.report_error(leaf.spot, "type", message, f'write "{SHARE_MARK}", the default, or "{SHARE_MARK}share-"')
    return SHARE_MARK


def _compile_share_map(branch: Branch, scope: Scope) -> ShareMap | None:
    """Return the number of shares by the value of a word, or None. Faults are reported."""
    leaf, table = branch.get_leaf("by"), branch.get_branch("map")
    if leaf is None or not isinstance(leaf.value, str):
        return None
    signature = scope.find_single_word(leaf.spot, leaf.value)
    if table is None or not table.members:
        message = "replicas.by needs a map: how many shares for what the word says"
        scope.report_error(leaf.spot, "missing", message, "add map = { … = 4 }")
        return None
    if signature is None:
        return None
    counts: dict[str, int] = {}
    patterns: list[tuple[str, Glob, int]] = []
    for key in table.members:
        node = table.get_leaf(key)
        if node is None:
            scope.report_error(
                leaf.spot, "type", f"{key} is how many shares: a whole number from 1", "write for example 4"
            )
            continue
        count = _compile_count(node, scope, f"{key} is how many shares")
        if count is None:
            continue
        if signature.kind is ValueType.TEXT and any(character in "*?[" for character in key):
            try:
                patterns.append((key, parse(key), count))
            except PatternError as error:
                scope.report_error(node.spot, "glob", error.message, error.write, mark="key")
        elif (text := _canonicalize_key(key, signature.kind, node, scope)) is not None:
            counts[text] = count
    default_leaf = branch.get_leaf("else")
    default = (
        None
        if default_leaf is None
        else _compile_count(default_leaf, scope, "else is how many shares if the map has none")
    )
    patterns.sort(key=lambda item: (-len(item[0]), item[0]))
    return ShareMap(
        leaf.value, tuple(counts.items()), tuple((pattern, count) for _, pattern, count in patterns), default
    )


def _canonicalize_key(key: str, kind: ValueType, node: Leaf, scope: Scope) -> str | None:
    """Return a key of the map in canonical form, or None. Keys of TOML are text for words of every type."""
    written: object = key
    if kind is ValueType.INT and key.removeprefix("-").isdecimal():
        written = int(key)
    elif kind is ValueType.BOOL and key in {"true", "false"}:
        written = key == "true"
    try:
        return format_scalar(parse_operand(kind, written))
    except OperandError as error:
        scope.report_error(node.spot, "type", f"{key}: {error.message}", error.write, mark="key")
        return None


def _check_list_size(
    leaf: Leaf | None, count: int, scope: Scope, ids: tuple[CompiledTemplate, ...], suffix: str
) -> bool:
    """Return whether the device list of the kubelet has room for the shares. Faults are reported."""
    if leaf is None or count == 1:
        return True
    length = compute_shortest_id(ids, scope.source) if scope.source else 1
    length += len(suffix) - len(SHARE_MARK)
    limit = compute_most_shares(length)
    if count > limit:
        message = f"{count} shares × {compute_share_bytes(length, count)} bytes exceed the kubelet's 4 MiB list"
        scope.report_error(leaf.spot, "list-size", message, f"at most {limit}")
        return False
    if not scope.is_single and scope.source and 2 * count * compute_share_bytes(length, count) > MAX_LIST_BYTES:
        size = count * compute_share_bytes(length, count) / (1024 * 1024)
        message = f"{count:,} ids of one device are a list of {size:.1f} MiB; a second would pass the kubelet's 4 MiB"
        write = f"write at most {compute_most_shares(length, devices=2)}, or make a resource of each device"
        scope.report_warning(leaf.spot, "list-size", message, write)
    return True


def compute_share_bytes(id_length: int, count: int) -> int:
    """Return the bytes of one share in the device list, for this ID length and number of shares."""
    return compute_device_bytes(min(ID_LIMIT, id_length + len(f"{SHARE_MARK}{count}")))


def compute_most_shares(id_length: int, devices: int = 1) -> int:
    """Return the largest number of shares of each device that one list can contain."""
    limit = MAX_LIST_BYTES // (devices * compute_share_bytes(id_length, 1))
    while devices * limit * compute_share_bytes(id_length, limit) > MAX_LIST_BYTES:
        limit = min(limit - 1, MAX_LIST_BYTES // (devices * compute_share_bytes(id_length, limit)))
    return limit
