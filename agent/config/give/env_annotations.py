"""What a container is told, variables and annotations, judged for what differs between its devices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

from agent.config.give.give_sections import GiveSection, When, has_unread_key
from agent.config.merge.config_tree import Branch, Leaf
from agent.config.scope import Scope
from agent.config.toml.file_position import FilePosition, FindingMark
from agent.config.values.json_values import CompiledValue, compile_json
from agent.config.values.templates import CompiledTemplate, compile_env_name, compile_template
from agent.core.entry.cdi import ANNOTATION
from agent.core.entry.resource_spec import EnvGive
from agent.core.grants.annotation import RESERVED, is_annotation_key
from agent.core.language.template import Slot, Template, has_control

_Judge: TypeAlias = Callable[
    [FilePosition, object, FindingMark], CompiledTemplate | None
]  # of a name; says what is wrong with it


class _Place(NamedTuple):
    """Where it is said, and what one of them is."""

    key: str
    one: str

    @property
    def section(self) -> str:
        """The section of `give`."""
        return self.key.removeprefix("give.")


class _Item(NamedTuple):
    """One thing that is said, as it is written; see `Part`."""

    key: str
    address: str
    member: Branch
    when: When


def compile_env(parts: Sequence[GiveSection], scope: Scope, resource: str | None) -> tuple[EnvGive, ...]:
    """The variables of an entry, no two under one name that can be given together."""

    def judged(spot: FilePosition, written: object, mark: FindingMark) -> CompiledTemplate | None:
        return compile_env_name(spot, written, scope, resource, mark=mark)

    return _sayings(parts, _Place("give.env", "a variable"), scope, judged)


def compile_annotations(parts: Sequence[GiveSection], scope: Scope) -> tuple[EnvGive, ...]:
    """The annotations of an entry, no two under one key that can be given together."""

    def judged(spot: FilePosition, written: object, mark: FindingMark) -> CompiledTemplate | None:
        return _key(spot, written, scope, mark)

    return _sayings(parts, _Place("give.annotations", "an annotation"), scope, judged)


def _sayings(parts: Sequence[GiveSection], place: _Place, scope: Scope, judged: _Judge) -> tuple[EnvGive, ...]:
    sayings: list[EnvGive] = []
    named: dict[str, list[tuple[str, EnvGive]]] = {}
    for part in parts:
        for key, member in part.members(place.section):
            address = f"{part.address}.{place.section}.{key}"
            item = _Item(key, address, member, part.when(member))
            saying = _saying(item, place, scope, judged)
            if saying is None or item.when.never:
                continue
            others = named.setdefault(saying.name.source, [])
            rival = next((other for other, earlier in others if _meet(earlier, saying)), None)
            if rival is not None:
                spot = (member.get_leaf("name") or member.get_leaf("value") or Leaf(None, member.spot)).spot
                message = f"{rival} has the name {saying.name.source} too, and one would be lost"
                also = "give.also." in rival + address
                write = "take another option, or another name" if also else "give it another name"
                scope.report(spot.make_error("duplicate-name", message, write))
                continue
            others.append((address, saying))
            sayings.append(saying)
    return tuple(sayings)


def _meet(one: EnvGive, other: EnvGive) -> bool:
    """Whether two of one name are surely given together somewhere; what else there is, only a grant can tell."""
    return one.condition is None or other.condition is None or one.condition == other.condition


def _saying(item: _Item, place: _Place, scope: Scope, judged: _Judge) -> EnvGive | None:
    key, address, member, when = item
    value = _value(address, member, place, scope)
    if value is None:
        return None
    name_leaf = member.get_leaf("name")
    spot, written = (name_leaf.spot, name_leaf.value) if name_leaf else (member.spot, key)
    name = judged(spot, written, "text" if name_leaf else "key")
    join_leaf = member.get_leaf("join")
    join = _join(join_leaf, scope) if join_leaf else None
    under = _member(member, place, scope)
    if name is None or value.text is None:
        return None
    if name.is_list:
        message = f"{place.one}'s name is one text, and this has a list in it"
        scope.report(spot.make_error("type", message, "put the list into value", mark="text"))
        return None
    own = {slot.word for slot in name.template.slots}
    one = "n" not in own if value.is_list else value.varies and own.isdisjoint({"n", "id"})
    if join_leaf is None and member.get_leaf("key") is None and name.is_certain and value.is_certain and one:
        message, write = "differs between devices: add join, or {n} in its name, or limit.per_container = 1", ""
        if value.is_list:
            message = "a list, which needs something between its elements"
        elif value.is_json:
            write = 'add key = "{id}": one object, with a member for each device'
        spot = value.spot
        scope.report(spot.make_error("differs-between-devices", message, write or 'add join = ","', mark=value.mark))
        return None
    return EnvGive(key, name.template, value.text, join, value.spot.origin, when.clause, under)


def _value(address: str, member: Branch, place: _Place, scope: Scope) -> CompiledValue | None:
    """What is said; none, with a finding, if nothing is."""
    leaf, json = member.get_leaf("value"), member.get_branch("json")
    if json is not None:
        return compile_json(json, scope)
    if leaf is None:
        if scope.has_all_keys and not has_unread_key(member, place.key):
            scope.report(member.spot.make_error("missing", f"{address} has no value", 'write value = "…"', mark="key"))
        return None
    made = compile_template(leaf.spot, leaf.value, scope, f"{place.one}'s value", in_grant=True, may_be_empty=True)
    if made is None:
        return CompiledValue(None, leaf.spot)
    return CompiledValue(made.template, leaf.spot, made.varies, made.is_list, made.is_certain)


def _member(member: Branch, place: _Place, scope: Scope) -> Template | None:
    """The name of a device's own in the one object that all are in; none if there is none such."""
    leaf = member.get_leaf("key")
    if leaf is None:
        return None
    if member.get_branch("json") is None:
        message = "key names the member that each device has in the JSON of json, and there is none"
        scope.report(leaf.spot.make_error("type", message, f"leave it out, or write json for {place.one}", mark="key"))
        return None
    if (join := member.get_leaf("join")) is not None:
        message = "with key all devices are in one object, so nothing is joined"
        scope.report(join.spot.make_error("type", message, "leave it out", mark="key"))
    made = compile_template(leaf.spot, leaf.value, scope, "key", in_grant=True)
    if made is not None and made.is_list:
        scope.report(
            leaf.spot.make_error(
                "type", "key is one text, and this has a list in it", 'write key = "{id}"', mark="text"
            )
        )
        return None
    if (
        made is not None
        and made.is_certain
        and not made.varies
        and not (scope.is_single or scope.has_one_per_container)
    ):
        message = "all devices would be the same member of the object"
        scope.report(leaf.spot.make_error("differs-between-devices", message, 'write key = "{id}"', mark="text"))
        return None
    return made.template if made else None


def _join(leaf: Leaf, scope: Scope) -> str | None:
    """What stands between values; none, with a finding, if it cannot be that."""
    if isinstance(leaf.value, str) and not has_control(leaf.value):
        return leaf.value
    scope.report(leaf.spot.make_error("type", "join is text without control characters", 'write ","'))
    return None


def _key(spot: FilePosition, written: object, scope: Scope, mark: FindingMark) -> CompiledTemplate | None:
    """A text that is the key of an annotation, and none of the kubelet's own."""
    made = compile_template(spot, written, scope, "the key of an annotation", in_grant=True)
    if made is None:
        return None
    first = made.template.pieces[0]
    key = "".join(piece if isinstance(piece, str) else "x" for piece in made.template.pieces)
    fault: tuple[str, str] | None = None
    if isinstance(first, Slot) and first.word != "resource":
        fault = f"{first.word} could begin as the kubelet's own keys do", f'write "example.com/{made.template.source}"'
    elif key.startswith(RESERVED):
        fault = f"keys that begin with {RESERVED} are the kubelet's own, and go over ours", "take another key"
    elif key.startswith(ANNOTATION):
        fault = "CDI devices are named by give.cdi, which looks for them", 'give.cdi.NAME = { via = "annotation", … }'
    elif not is_annotation_key(key):
        fault = "a key is name or domain/name, of letters, digits, -, _ and .", 'write for example "example.com/ids"'
    if fault is not None:
        scope.report(spot.make_error("annotation-key", *fault, mark=mark))
        return None
    return made
