"""`give.via`: what is given by a CDI spec of our own, and what cannot be, as it depends on the container."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from agent.config.merge.config_tree import Branch
from agent.config.scope import Scope
from agent.core.entry.resource_spec import EnvGive, MountGive, NodeGive
from agent.core.language.clause import Clause
from agent.core.language.template import Template
from agent.core.struct import replace

BY_KUBELET = "kubelet"
_OF_CONTAINER = frozenset({"n", "asked", "offered", "all_given", "share"})  # not of the device alone


class Gives(NamedTuple):
    """What a spec could say."""

    nodes: tuple[NodeGive, ...]
    mounts: tuple[MountGive, ...]
    env: tuple[EnvGive, ...]


def compile_via(give: Branch | None, gives: Gives, scope: Scope) -> tuple[str, Gives]:
    """How the runtime is told, and what is given, that in it which is in a spec marked."""
    leaf = give.get_leaf("via") if give else None
    if leaf is None or leaf.value == BY_KUBELET:
        return "", gives
    marked = _marked(gives, scope)
    if scope.has_all_keys and not any(one.in_spec for part in marked for one in part):
        message = "a CDI spec would say nothing: no node, mount or variable here is the same for every container"
        scope.report(leaf.spot.make_error("nothing-in-spec", message, 'write "kubelet", the default', mark="text"))
    return str(leaf.value), marked


def _marked(gives: Gives, scope: Scope) -> Gives:
    """Each that depends on the device alone, marked. Nodes come first: other texts may say where one came out."""
    nodes: list[NodeGive] = []
    apart: set[str] = set()
    for node in gives.nodes:
        alone = _of_device((node.path, *node.container_paths), node.condition, apart, scope)
        nodes.append(replace(node, in_spec=alone))
        apart |= set() if alone else {f"given.{node.name}"}
    mounts = [
        replace(one, in_spec=_of_device((one.path, *one.container_paths), one.condition, apart, scope))
        for one in gives.mounts
    ]
    env = [
        replace(
            one,
            in_spec=one.separator is None
            and one.member_key is None
            and _of_device(one.templates, one.condition, apart, scope),
        )
        for one in gives.env
    ]
    return Gives(tuple(nodes), tuple(mounts), tuple(env))


def _of_device(texts: Sequence[Template], when: Clause | None, apart: Iterable[str], scope: Scope) -> bool:
    """Whether it is known before a container gets the device. The health of a partner is another by then."""
    words = {slot.word for text in texts for slot in text.slots}
    words |= {line.word for line in when.walk_lines()} if when else set()
    return words.isdisjoint(_OF_CONTAINER.union(apart)) and not (
        scope.entry_words and scope.entry_words.find_health_joins(words)
    )
