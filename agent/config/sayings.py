"""What a container is told, variables and annotations, judged for what differs between its devices."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from agent.config.give import has_unread_key, is_said
from agent.config.scope import Scope
from agent.config.spot import Mark, Spot
from agent.config.texts import Phrase, env_phrase, phrase
from agent.config.tree import Branch, Leaf
from agent.core.annotation import RESERVED, is_annotation_key
from agent.core.cdi import ANNOTATION
from agent.core.resource import EnvGive
from agent.core.text import Slot, has_control

_Judge: TypeAlias = Callable[[Spot, object, Mark], Phrase | None]  # of a name; says what is wrong with it


class _Place(NamedTuple):
    """Where it is said, and what one of them is."""

    key: str
    one: str


def compile_env(give: Branch | None, scope: Scope, resource: str | None) -> tuple[EnvGive, ...]:
    """The variables of an entry, no two under one name."""

    def judged(spot: Spot, written: object, mark: Mark) -> Phrase | None:
        return env_phrase(spot, written, scope, resource, mark=mark)

    return _sayings(give.branch("env") if give else None, _Place("give.env", "a variable"), scope, judged)


def compile_annotations(give: Branch | None, scope: Scope) -> tuple[EnvGive, ...]:
    """The annotations of an entry, no two under one key."""

    def judged(spot: Spot, written: object, mark: Mark) -> Phrase | None:
        return _key(spot, written, scope, mark)

    place = _Place("give.annotations", "an annotation")
    return _sayings(give.branch("annotations") if give else None, place, scope, judged)


def _sayings(branch: Branch | None, place: _Place, scope: Scope, judged: _Judge) -> tuple[EnvGive, ...]:
    sayings: list[EnvGive] = []
    named: dict[str, str] = {}
    for key, member in branch.branches() if branch else ():
        saying = _saying(key, member, place, scope, judged)
        if saying is None:
            continue
        name = saying.name.source
        if name in named:
            spot = (member.leaf("name") or member.leaf("value") or Leaf(None, member.spot)).spot
            message = f"{place.key}.{named[name]} has the name {name} too, and one would be lost"
            scope.error(spot.error("duplicate-name", message, "give it another name"))
            continue
        named[name] = key
        sayings.append(saying)
    return tuple(sayings)


def _saying(key: str, member: Branch, place: _Place, scope: Scope, judged: _Judge) -> EnvGive | None:
    value_leaf = member.leaf("value")
    if value_leaf is None:
        if scope.keys_known and not has_unread_key(member, place.key) and not is_said(member, "value"):
            message = f"{place.key}.{key} has no value"
            scope.error(member.spot.error("missing", message, 'write value = "…"', mark="key"))
        return None
    name_leaf = member.leaf("name")
    spot, written = (name_leaf.spot, name_leaf.value) if name_leaf else (member.spot, key)
    name = judged(spot, written, "text" if name_leaf else "key")
    value = phrase(value_leaf.spot, value_leaf.value, scope, f"{place.one}'s value", giving=True, may_be_empty=True)
    join_leaf = member.leaf("join")
    join = _join(join_leaf, scope) if join_leaf else None
    if name is None or value is None:
        return None
    if name.many:
        message = f"{place.one}'s name is one text, and this has a list in it"
        scope.error(spot.error("type", message, mark="text"))
        return None
    own = {slot.word for slot in name.text.slots}
    one = "n" not in own if value.many else value.varies and own.isdisjoint({"n", "id"})
    if join_leaf is None and name.certain and value.certain and one:
        message = "differs between devices: add join, or {n} in its name, or limit.per_container = 1"
        if value.many:
            message = "a list, which needs something between its elements"
        scope.error(value_leaf.spot.error("differs-between-devices", message, 'add join = ","', mark="text"))
        return None
    return EnvGive(key, name.text, value.text, join, value_leaf.spot.origin)


def _join(leaf: Leaf, scope: Scope) -> str | None:
    """What stands between values; none, with a finding, if it cannot be that."""
    if isinstance(leaf.value, str) and not has_control(leaf.value):
        return leaf.value
    scope.error(leaf.spot.error("type", "join is text without control characters", 'write ","'))
    return None


def _key(spot: Spot, written: object, scope: Scope, mark: Mark) -> Phrase | None:
    """A text that is the key of an annotation, and none of the kubelet's own."""
    made = phrase(spot, written, scope, "the key of an annotation", giving=True)
    if made is None:
        return None
    first = made.text.pieces[0]
    key = "".join(piece if isinstance(piece, str) else "x" for piece in made.text.pieces)
    fault: tuple[str, str] | None = None
    if isinstance(first, Slot) and first.word != "resource":
        fault = f"{first.word} could begin as the kubelet's own keys do", f'write "example.com/{made.text.source}"'
    elif key.startswith(RESERVED):
        fault = f"keys that begin with {RESERVED} are the kubelet's own, and go over ours", "take another key"
    elif key.startswith(ANNOTATION):
        fault = "CDI devices are named by give.cdi, which looks for them", 'give.cdi.NAME = { via = "annotation", … }'
    elif not is_annotation_key(key):
        fault = "a key is name or domain/name, of letters, digits, -, _ and .", 'write for example "example.com/ids"'
    if fault is not None:
        scope.error(spot.error("annotation-key", *fault, mark=mark))
        return None
    return made
