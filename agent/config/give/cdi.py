"""CDI: the devices of `give.cdi`, by their full names, and the part of `give` that a generated spec can contain."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from agent.config.give.give_sections import GiveSection
from agent.config.merge.config_tree import Branch
from agent.config.scope import Scope
from agent.config.values.templates import compile_template
from agent.core.entry.cdi import is_qualified_name
from agent.core.entry.resource_spec import CdiGive, EnvGive, MountGive, NodeGive
from agent.core.language.clause import Clause
from agent.core.language.template import Template
from agent.core.struct import replace

BY_KUBELET = "kubelet"
_CONTAINER_WORDS = frozenset({"n", "asked", "offered", "all_given", "share"})  # words that depend on the container


class SpecGives(NamedTuple):
    """The gives that a spec can contain, and the CDI form: "cdi" or "cdi-annotation", or an empty string."""

    nodes: tuple[NodeGive, ...]
    mounts: tuple[MountGive, ...]
    env: tuple[EnvGive, ...]
    via: str = ""


def compile_via(tree: Branch, gives: SpecGives, scope: Scope) -> SpecGives:
    """Return the gives with the CDI form. Those in the spec are marked."""
    give = tree.get_branch("give")
    leaf = give.get_leaf("via") if give else None
    if leaf is None or leaf.value == BY_KUBELET:
        return gives
    marked_gives = _mark_gives(gives, scope)
    if scope.has_all_keys and not any(
        item.in_spec for group in (marked_gives.nodes, marked_gives.mounts, marked_gives.env) for item in group
    ):
        message = "a CDI spec would say nothing: no node, mount or variable here is the same for every container"
        scope.report_error(leaf.spot, "nothing-in-spec", message, 'write "kubelet", the default', mark="text")
    return marked_gives._replace(via=str(leaf.value))


def _mark_gives(gives: SpecGives, scope: Scope) -> SpecGives:
    """Return the gives, with a mark on each that depends only on the device. Nodes come first, because other
    templates can use their container paths.
    """
    nodes: list[NodeGive] = []
    unknown_words: set[str] = set()
    for node in gives.nodes:
        in_spec = _depends_on_device_only((node.path, *node.container_paths), node.condition, unknown_words, scope)
        nodes.append(replace(node, in_spec=in_spec))
        unknown_words |= set() if in_spec else {f"given.{node.name}"}
    mounts = [
        replace(
            give,
            in_spec=_depends_on_device_only((give.path, *give.container_paths), give.condition, unknown_words, scope),
        )
        for give in gives.mounts
    ]
    env = [
        replace(
            give,
            in_spec=give.separator is None
            and give.member_key is None
            and _depends_on_device_only(give.templates, give.condition, unknown_words, scope),
        )
        for give in gives.env
    ]
    return SpecGives(tuple(nodes), tuple(mounts), tuple(env))


def _depends_on_device_only(
    texts: Sequence[Template], condition: Clause | None, unknown_words: Iterable[str], scope: Scope
) -> bool:
    """Return whether the value is known before a container gets the device. Partner health can change until then."""
    words = {slot.word for text in texts for slot in text.slots}
    words |= {line.word for line in condition.walk_lines()} if condition else set()
    return words.isdisjoint(_CONTAINER_WORDS.union(unknown_words)) and not (
        scope.entry_words and scope.entry_words.find_health_joins(words)
    )


def compile_cdi(sections: Sequence[GiveSection], scope: Scope) -> tuple[CdiGive, ...]:
    """Return the CDI devices of an entry."""
    devices = [
        _compile_device(key, member, section, scope)
        for section in sections
        for key, member in section.branch.list_branches("cdi")
    ]
    return tuple(device for device in devices if device is not None)


def _compile_device(key: str, member: Branch, section: GiveSection, scope: Scope) -> CdiGive | None:
    condition = section.compile_condition(member, scope)
    message = f"{section.address}.cdi.{key} has no name"
    leaf = scope.require_leaf(member, "name", message, 'write name = "vendor/class=device"')
    if leaf is None:
        return None
    name = compile_template(leaf.spot, leaf.value, scope, "a CDI device's name")
    if name is None:
        return None
    if not is_qualified_name("".join(piece if isinstance(piece, str) else "x" for piece in name.template.pieces)):
        message = "a CDI device's full name is vendor/class=device"
        scope.report_error(leaf.spot, "cdi-name", message, 'write for example "example.com/card={name}"', mark="text")
        return None
    if condition.is_never:
        return None
    unchecked, via = member.is_on("unchecked"), member.get_leaf("via")
    return CdiGive(
        key, name.template, str(via.value) if via else "field", unchecked, leaf.spot.origin, condition.clause
    )
