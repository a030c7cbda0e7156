"""Settings of a whole resource: slots, limits, topology, expected number of devices, devices that move into a pod."""

from __future__ import annotations

from agent.config.merge.config_tree import Branch, Leaf
from agent.config.resource.name_template import NameTemplate
from agent.config.scope import ANYTHING, Scope
from agent.config.toml.file_position import FindingMark, TextPiece
from agent.core.entry.resource_spec import Limit, Slots
from agent.core.inventory.device import compute_device_bytes
from agent.core.language.template import ID_LIMIT, Template, parse
from agent.core.language.value import ValueType
from agent.core.lists.build_lists import MAX_LIST_BYTES

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


SLOT_ID = "{resource|digest:8}-{n}"


def compile_slots(tree: Branch, scope: Scope, name: NameTemplate | None) -> Slots | None:
    """Return the slots of the resource, or None. If the resource name has words, the slot ID must contain the name."""
    branch = tree.get_branch("slots")
    if branch is None:
        return None
    leaf = branch.get_leaf("count")
    if leaf is None or not isinstance(leaf.value, int):  # other values were reported when they were read
        if scope.has_all_keys:
            scope.report_error(branch.spot, "missing", "slots has no count", "add count = 8", mark="key")
        return None
    count, text = (
        leaf.value,
        _compile_slot_id(branch.get_leaf("id"), scope, has_name_words=name is not None and name.template is not None),
    )
    limit = MAX_LIST_BYTES // compute_device_bytes(ID_LIMIT)
    if count > limit:
        message = f"{count} slots exceed the kubelet's 4 MiB list"
        scope.report_error(leaf.spot, "list-size", message, f"at most {limit}")
        return None
    replicas = tree.get_branch("replicas")
    replica_count = replicas.get_leaf("count") if replicas else None
    if replicas is not None and (replica_count is None or replica_count.value != 1):
        message = "slots are shares of all devices together, and replicas of each"
        scope.report_error(branch.spot, "type", message, "write replicas = false, or leave slots out", mark="key")
        return None
    return None if text is None else Slots(count, text)


def compile_limit(tree: Branch) -> Limit:
    """Return the limits of one container. Their values were checked when they were read."""
    branch = tree.get_branch("limit")
    if branch is None:
        return Limit()
    limit_leaf = branch.get_leaf("per_container")
    number = limit_leaf.value if limit_leaf else None
    return Limit(number if isinstance(number, int) else None, branch.is_on("distinct"))


def compile_expect(tree: Branch) -> int | None:
    """Return the expected number of devices, or None."""
    leaf = tree.get_leaf("expect")
    return leaf.value if leaf is not None and isinstance(leaf.value, int) else None


def compile_registration(tree: Branch) -> str | None:
    """Return how the resource registers, or None for the default of the agent."""
    leaf = tree.get_leaf("registration")
    return str(leaf.value) if leaf else None


def compile_topology(tree: Branch, scope: Scope, slots: Slots | None) -> str | tuple[int, ...]:
    """Return the word of the NUMA node, or the nodes. Slots have no node."""
    word = _compile_topology(tree.get_leaf("topology"), scope)
    return () if slots else word


def _compile_topology(leaf: Leaf | None, scope: Scope) -> str | tuple[int, ...]:
    if leaf is None:
        return "numa"
    if isinstance(leaf.value, list):
        return tuple(sorted(set(leaf.value)))
    word = str(leaf.value)
    if word == "none":
        return ()
    signature = scope.find_word(leaf.spot, word, "text")
    if (
        signature is not None
        and signature is not ANYTHING
        and (signature.is_list or signature.kind is not ValueType.INT)
    ):
        type_text = "a list" if signature.is_list else signature.kind.value
        scope.report_error(
            leaf.spot, "type", f"a NUMA node is a number, and {word} is {type_text}", 'write "numa"', mark="text"
        )
    return word


def _compile_slot_id(leaf: Leaf | None, scope: Scope, *, has_name_words: bool) -> Template | None:
    if leaf is None:
        return parse(SLOT_ID)
    text = scope.parse_text(leaf.spot, "text", lambda: parse(str(leaf.value)))
    if text is None:
        return None
    slot_words = {slot.word for slot in text.slots}
    wrong_slot = next((slot for slot in text.slots if slot.word not in {"n", "resource"}), None)
    mark: FindingMark = "text"
    if wrong_slot is not None:
        message = f"a slot is of no device: its id has {{n}} and perhaps {{resource}}, and no {wrong_slot.word}"
        mark = TextPiece(wrong_slot.at, len(wrong_slot.word) + 2)
    elif "n" not in slot_words:
        message = "all slots would have one id"
    elif has_name_words and "resource" not in slot_words:
        message = "the name has words in it, so the slots of two resources would have one id"
    else:
        return text
    scope.report_error(leaf.spot, "differs-between-devices", message, f'write "{SLOT_ID}"', mark=mark)
    return None
