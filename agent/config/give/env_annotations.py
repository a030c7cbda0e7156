"""Variables and annotations of a container, with checks for values that differ between its devices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

from agent.config.give.give_sections import GiveCondition, GiveSection
from agent.config.merge.config_tree import Branch, Leaf
from agent.config.scope import Scope
from agent.config.toml.file_position import FilePosition, FindingMark
from agent.config.values.json_values import CompiledValue, compile_json
from agent.config.values.templates import CompiledTemplate, compile_env_name, compile_template
from agent.core.entry.cdi import ANNOTATION
from agent.core.entry.resource_spec import EnvGive
from agent.core.grants.env_values import RESERVED, is_annotation_key
from agent.core.language.template import Slot, Template, has_control
from agent.core.struct import Struct

_NameCompiler: TypeAlias = Callable[
    [FilePosition, object, FindingMark], CompiledTemplate | None
]  # compiles a name and reports its faults


class _EnvSection(Struct):
    """One of the two sections: `give.env` or `give.annotations`. noun: one item of the section, in error texts."""

    key: str
    noun: str

    @property
    def section_name(self) -> str:
        """The name of the section in `give`."""
        return self.key.removeprefix("give.")


class _EnvItem(NamedTuple):
    """One item of a section, as written; see `GiveSection`."""

    key: str
    address: str
    member: Branch
    condition: GiveCondition


def compile_env(sections: Sequence[GiveSection], scope: Scope, resource: str | None) -> tuple[EnvGive, ...]:
    """Return the variables of an entry. Two variables with one name cannot be given together."""

    def compile_name(spot: FilePosition, written: object, mark: FindingMark) -> CompiledTemplate | None:
        return compile_env_name(spot, written, scope, resource, mark=mark)

    return _compile_items(sections, _EnvSection("give.env", "a variable"), scope, compile_name)


def compile_annotations(sections: Sequence[GiveSection], scope: Scope) -> tuple[EnvGive, ...]:
    """Return the annotations of an entry. Two annotations with one key cannot be given together."""

    def compile_name(spot: FilePosition, written: object, mark: FindingMark) -> CompiledTemplate | None:
        return _compile_annotation_key(spot, written, scope, mark)

    return _compile_items(sections, _EnvSection("give.annotations", "an annotation"), scope, compile_name)


def _compile_items(
    sections: Sequence[GiveSection], env_section: _EnvSection, scope: Scope, compile_name: _NameCompiler
) -> tuple[EnvGive, ...]:
    gives: list[EnvGive] = []
    items_by_name: dict[str, list[tuple[str, EnvGive]]] = {}
    for section in sections:
        for key, member in section.branch.list_branches(env_section.section_name):
            address = f"{section.address}.{env_section.section_name}.{key}"
            item = _EnvItem(key, address, member, section.compile_condition(member, scope))
            give = _compile_item(item, env_section, scope, compile_name)
            if give is None or item.condition.is_never:
                continue
            rivals = items_by_name.setdefault(give.name.source, [])
            rival = next((rival_address for rival_address, earlier in rivals if _can_meet(earlier, give)), None)
            if rival is not None:
                spot = (member.get_leaf("name") or member.get_leaf("value") or Leaf(None, member.spot)).spot
                message = f"{rival} has the name {give.name.source} too, and one would be lost"
                is_conditional_section = "give.also." in rival + address
                write = "take another option, or another name" if is_conditional_section else "give it another name"
                scope.report_error(spot, "duplicate-name", message, write)
                continue
            rivals.append((address, give))
            gives.append(give)
    return tuple(gives)


def _can_meet(earlier: EnvGive, later: EnvGive) -> bool:
    """Return whether two items with one name are certainly given together in some case. Only a grant can decide
    other cases.
    """
    return earlier.condition is None or later.condition is None or earlier.condition == later.condition


def _compile_item(
    item: _EnvItem, env_section: _EnvSection, scope: Scope, compile_name: _NameCompiler
) -> EnvGive | None:
    key, address, member, condition = item
    value = _compile_value(address, member, env_section, scope)
    if value is None:
        return None
    name_leaf = member.get_leaf("name")
    spot, written = (name_leaf.spot, name_leaf.value) if name_leaf else (member.spot, key)
    name = compile_name(spot, written, "text" if name_leaf else "key")
    join_leaf = member.get_leaf("join")
    join = _compile_separator(join_leaf, scope) if join_leaf else None
    member_key = _compile_member_key(member, env_section, scope)
    if name is None or value.text is None:
        return None
    if name.is_list:
        message = f"{env_section.noun}'s name is one text, and this has a list in it"
        scope.report_error(spot, "type", message, "put the list into value", mark="text")
        return None
    name_words = {slot.word for slot in name.template.slots}
    is_single_value = "n" not in name_words if value.is_list else value.varies and name_words.isdisjoint({"n", "id"})
    if (
        join_leaf is None
        and member.get_leaf("key") is None
        and name.is_certain
        and value.is_certain
        and is_single_value
    ):
        message, write = "differs between devices: add join, or {n} in its name, or limit.per_container = 1", ""
        if value.is_list:
            message = "a list, which needs something between its elements"
        elif value.is_json:
            write = 'add key = "{id}": one object, with a member for each device'
        spot = value.spot
        scope.report_error(spot, "differs-between-devices", message, write or 'add join = ","', mark=value.mark)
        return None
    return EnvGive(key, name.template, value.text, join, value.spot.origin, condition.clause, member_key)


def _compile_value(address: str, member: Branch, env_section: _EnvSection, scope: Scope) -> CompiledValue | None:
    """Return the value of an item, or None. A missing value is reported."""
    if (json := member.get_branch("json")) is not None:
        return compile_json(json, scope)
    leaf = scope.require_leaf(member, "value", f"{address} has no value", 'write value = "…"')
    if leaf is None:
        return None
    template = compile_template(
        leaf.spot, leaf.value, scope, f"{env_section.noun}'s value", in_grant=True, may_be_empty=True
    )
    if template is None:
        return CompiledValue(None, leaf.spot)
    return CompiledValue(template.template, leaf.spot, template.varies, template.is_list, template.is_certain)


def _compile_member_key(member: Branch, env_section: _EnvSection, scope: Scope) -> Template | None:
    """Return the key of each device in the one JSON object, or None. Faults are reported."""
    leaf = member.get_leaf("key")
    if leaf is None:
        return None
    if member.get_branch("json") is None:
        message = "key names the member that each device has in the JSON of json, and there is none"
        scope.report_error(
            leaf.spot, "type", message, f"leave it out, or write json for {env_section.noun}", mark="key"
        )
        return None
    if (join := member.get_leaf("join")) is not None:
        message = "with key all devices are in one object, so nothing is joined"
        scope.report_error(join.spot, "type", message, "leave it out", mark="key")
    template = compile_template(leaf.spot, leaf.value, scope, "key", in_grant=True)
    if template is not None and template.is_list:
        scope.report_error(
            leaf.spot, "type", "key is one text, and this has a list in it", 'write key = "{id}"', mark="text"
        )
        return None
    if template is not None and template.is_certain and not template.varies and scope.has_several_devices:
        message = "all devices would be the same member of the object"
        scope.report_error(leaf.spot, "differs-between-devices", message, 'write key = "{id}"', mark="text")
        return None
    return template.template if template else None


def _compile_separator(leaf: Leaf, scope: Scope) -> str | None:
    """Return the text between the values of several devices, or None. A wrong type is reported."""
    if isinstance(leaf.value, str) and not has_control(leaf.value):
        return leaf.value
    scope.report_error(leaf.spot, "type", "join is text without control characters", 'write ","')
    return None


def _compile_annotation_key(
    spot: FilePosition, written: object, scope: Scope, mark: FindingMark
) -> CompiledTemplate | None:
    """Return the key of an annotation, or None. Invalid keys and keys of the kubelet are reported."""
    template = compile_template(spot, written, scope, "the key of an annotation", in_grant=True)
    if template is None:
        return None
    first_piece = template.template.pieces[0]
    key = "".join(piece if isinstance(piece, str) else "x" for piece in template.template.pieces)
    fault: tuple[str, str] | None = None
    if isinstance(first_piece, Slot) and first_piece.word != "resource":
        fault = (
            f"{first_piece.word} could begin as the kubelet's own keys do",
            f'write "example.com/{template.template.source}"',
        )
    elif key.startswith(RESERVED):
        fault = f"keys that begin with {RESERVED} are the kubelet's own, and go over ours", "take another key"
    elif key.startswith(ANNOTATION):
        fault = "CDI devices are named by give.cdi, which looks for them", 'give.cdi.NAME = { via = "annotation", … }'
    elif not is_annotation_key(key):
        fault = "a key is name or domain/name, of letters, digits, -, _ and .", 'write for example "example.com/ids"'
    if fault is not None:
        scope.report_error(spot, "annotation-key", *fault, mark=mark)
        return None
    return template
