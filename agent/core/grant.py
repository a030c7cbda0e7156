"""Allocating: the one value that says what a container gets, and the reasons for which it gets nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from agent.core.device import Device, Node
from agent.core.resource import NodeGive, ResourceSpec
from agent.core.text import has_control
from agent.core.value import Absent, Value


class Cause(Enum):
    """Why a grant is refused; the values are the closed set of metric labels."""

    UNKNOWN_ID = "unknown_id"
    UNHEALTHY = "unhealthy"
    NODE_MISSING = "node_missing"
    CONFLICT = "conflict"
    DEADLINE = "deadline"


class Refused(Exception):  # noqa: N818  the field's word for it
    """No grant. `text` is one line for the pod's status: device, reason, next step; at most 200 characters."""

    def __init__(self, cause: Cause, text: str) -> None:
        self.cause = cause
        self.text = text if len(text) <= 200 else f"{text[:199]}…"
        super().__init__(self.text)


@dataclass(frozen=True, slots=True)
class GrantedNode:
    """A device node for a container: canonical host path, container path, permissions (letters r, w, m in order)."""

    host: str
    container: str
    permissions: str
    node: Node


@dataclass(frozen=True, slots=True)
class Grant:
    """What one container gets of one resource. Every form a runtime wants is rendered from this value."""

    resource: str
    ids: tuple[str, ...] = ()
    nodes: tuple[GrantedNode, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Chosen:
    """One host device in a request, with what the host says of it now.

    shares: the numbers of the shares asked for, empty for a whole device.
    facts: the words that the entry's texts mention, re-read for this grant.
    nodes: what stands at each path that the entry's nodes name for it.
    """

    device: Device
    shares: tuple[int, ...]
    facts: Mapping[str, Value | Absent]
    nodes: Mapping[str, Node | Absent]


def allocate(spec: ResourceSpec, ids: Sequence[str], chosen: Sequence[Chosen], offered: int) -> Grant:
    """The grant for one container.

    Args:
        spec: the resource.
        ids: the ids asked for.
        chosen: their host devices, each once, in list order of the resource: the order of everything given.
        offered: how many ids the resource lists.

    Raises:
        Refused: a required node is missing or not what was listed, or two devices want one path or variable.
    """
    nodes: dict[str, GrantedNode] = {}
    env: dict[str, str] = {}
    values: dict[str, list[str]] = {}
    for n, device in enumerate(chosen):
        given: dict[str, Value | Absent] = {}
        fact = _facts(spec, device, n, len(ids), offered, given)
        for give in spec.nodes:
            out = _give_nodes(give, device, fact, nodes, spec.name)
            given[f"given.{give.name}"] = tuple(out) if out else Absent("nothing was given")
        for give_env in spec.env:
            name = give_env.name.write(fact)
            written = give_env.value.write_all(fact)
            if isinstance(name, Absent) or isinstance(written, Absent):
                continue
            bucket = values.setdefault(name, [])
            bucket.extend(value for value in written if value not in bucket)
            env[name] = (give_env.join or "").join(bucket)
            if give_env.join is None and len(bucket) > 1:
                raise Refused(Cause.CONFLICT, f"{spec.name}: {name} would be both {bucket[0]} and {bucket[1]}")
            if has_control(env[name]):
                raise Refused(Cause.CONFLICT, f"{spec.name} {device.device.id}: {name} has a control character")
    return Grant(spec.name, tuple(ids), tuple(nodes.values()), env)


def node_paths(spec: ResourceSpec, facts: Callable[[str], Value | Absent]) -> tuple[str, ...]:
    """The host paths that an entry's nodes name for a device; those whose words are absent are left out."""
    paths: dict[str, None] = {}
    for give in spec.nodes:
        written = give.path.write_all(facts)
        if not isinstance(written, Absent):
            paths.update(dict.fromkeys(written))
    return tuple(paths)


def _give_nodes(
    give: NodeGive,
    chosen: Chosen,
    fact: Callable[[str], Value | Absent],
    nodes: dict[str, GrantedNode],
    resource: str,
) -> list[str]:
    """Put the nodes of one `give.nodes` line into the grant; the container paths they come out at."""
    device = chosen.device
    hosts = give.path.write_all(fact)
    if isinstance(hosts, Absent):
        if give.optional:
            return []
        raise Refused(Cause.NODE_MISSING, _missing(resource, device, f"node {give.name}: {hosts.reason}"))
    out: list[str] = []
    for index, host in enumerate(hosts):
        node = chosen.nodes.get(host, Absent("was not looked at"))
        if isinstance(node, Absent):
            if give.optional:
                continue
            raise Refused(Cause.NODE_MISSING, _missing(resource, device, f"{host}: {node.reason}"))
        listed = next((known for known in device.nodes if known.path == node.path), node)
        if listed != node:
            raise Refused(
                Cause.NODE_MISSING,
                _missing(resource, device, f"{host} is {_numbered(node)} now, was listed as {_numbered(listed)}"),
            )
        for to in give.to:
            container = _container_path(to.write_all(fact), host, index)
            if container is None:
                continue
            earlier = nodes.get(container)
            if earlier is not None and (earlier.host, earlier.permissions) != (node.path, give.permissions):
                raise Refused(
                    Cause.CONFLICT,
                    f"{resource}: {container} would be both {earlier.host} {earlier.permissions}"
                    f" and {node.path} {give.permissions}",
                )
            nodes[container] = GrantedNode(node.path, container, give.permissions, node)
            out.append(container)
    return out


def _container_path(written: tuple[str, ...] | Absent, host: str, index: int) -> str | None:
    if isinstance(written, Absent):
        return None
    path = written[index] if len(written) > 1 else written[0]
    return path + host.rpartition("/")[2] if path.endswith("/") else path


def _facts(
    spec: ResourceSpec,
    chosen: Chosen,
    n: int,
    asked: int,
    offered: int,
    given: Mapping[str, Value | Absent],
) -> Callable[[str], Value | Absent]:
    """The words of a text under `give`: those of the giving itself, then the device's own."""
    shares = chosen.device.shares
    own: dict[str, Value | Absent] = {
        "resource": spec.name,
        "id": chosen.device.id,
        "n": n,
        "asked": asked,
        "offered": offered,
        "all_given": asked == offered,
        "shares": shares or 1,
        "share": chosen.shares[0] if chosen.shares else 0,
        "share_percent": 100 // (shares or 1),
    }

    def fact(word: str) -> Value | Absent:
        if word.startswith("given."):
            return given.get(word, Absent("is given later"))
        if word in own:
            return own[word]
        return chosen.facts.get(word, Absent("was not read"))

    return fact


def _numbered(node: Node) -> str:
    return f"{'char' if node.type == 'c' else 'block'} {node.major}:{node.minor}"


def _missing(resource: str, device: Device, reason: str) -> str:
    return f"{resource} {device.id}: {reason}; on the node: device-agent scan {device.place}"
