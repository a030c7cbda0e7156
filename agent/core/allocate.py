"""Allocating: from the devices asked for, and what the host says of them, to the grant or the reason for none."""

from __future__ import annotations

from collections.abc import Sequence

from agent.core.device import Device, Node
from agent.core.giving import GivingWords
from agent.core.grant import Cause, Chosen, Grant, GrantedNode, Refused
from agent.core.resource import EnvGive, NodeGive, ResourceSpec
from agent.core.text import Fact, has_control
from agent.core.value import Absent, natural


def allocate(spec: ResourceSpec, ids: Sequence[str], chosen: Sequence[Chosen], offered: int) -> Grant:
    """The grant for one container.

    Args:
        spec: the resource.
        ids: the ids asked for; their order makes no difference.
        chosen: their host devices, each once, in list order of the resource: the order of everything given.
        offered: how many ids the resource lists.

    Raises:
        Refused: a required node is missing or not what was listed, or two devices want one path or variable.
    """
    draft = _Draft(spec.name)
    counted: dict[str, int] = {}
    for n, device in enumerate(chosen):
        words = GivingWords(spec.name, device, n, counted, asked=len(ids), offered=offered)
        for node in spec.nodes:
            draft.add_nodes(node, device, words)
        if not device.same:
            raise draft.missing(device.device, "other hardware is in its place now")
        for variable in spec.env:
            draft.add_variable(variable, device.device, words)
        words.count_on(counted)
    return Grant(spec.name, tuple(sorted(ids, key=natural)), tuple(draft.nodes.values()), draft.env)


def node_paths(spec: ResourceSpec, fact: Fact) -> tuple[str, ...]:
    """The host paths that an entry's nodes name for a device; those whose words are absent are left out."""
    paths: dict[str, None] = {}
    for give in spec.nodes:
        written = give.path.write_paths(fact)
        if not isinstance(written, Absent):
            paths.update(dict.fromkeys(written))
    return tuple(paths)


class _Draft:
    """A grant while it is made."""

    def __init__(self, resource: str) -> None:
        self._resource = resource
        self._values: dict[str, list[str]] = {}
        self.nodes: dict[str, GrantedNode] = {}
        self.env: dict[str, str] = {}

    def add_nodes(self, give: NodeGive, chosen: Chosen, words: GivingWords) -> None:
        """Put in what one `give.nodes` line gives of a device."""
        given: list[tuple[int, str]] = []
        many = len(give.to) > 1
        for n, fact in words.each(give.path):
            many |= fact is not words
            node = self._node(give, chosen, fact, element=fact is not words)
            if node is None:
                continue
            for to in give.to:
                path = to.write_paths(fact)
                if not isinstance(path, Absent) and len(path) == 1:
                    given.append((n, self._add_node(path[0], give, node)))
        words.give(give.name, given, many=many)

    def add_variable(self, give: EnvGive, device: Device, words: GivingWords) -> None:
        """Put in what one `give.env` line says of a device."""
        for _, fact in words.each(give.value):
            name, value = give.name.write(fact), give.value.write(fact)
            if isinstance(name, Absent) or isinstance(value, Absent):
                continue
            if not name or "=" in name or has_control(name):
                raise self._conflict(f"{device.id}: {name!r} cannot be the name of a variable")
            if has_control(value):
                raise self._conflict(f"{device.id}: {name} has a control character")
            values = self._values.setdefault(name, [])
            if value in values:
                continue
            values.append(value)
            if give.join is None and len(values) > 1:
                raise self._conflict(f"{name} would be both {values[0]} and {values[1]}")
            self.env[name] = (give.join or "").join(values)

    def _node(self, give: NodeGive, chosen: Chosen, fact: Fact, *, element: bool) -> tuple[str, Node] | None:
        """The host path as written and what stands there; none if it is optional and nothing does.

        `element`: it is one of the nodes that the hardware has now, of which there may be more than were listed.
        """
        written = give.path.write_paths(fact)
        if isinstance(written, Absent):
            path, node = f"node {give.name}", written
        else:
            path = written[0]
            found = chosen.nodes.get(path, Absent("was not looked at"))
            if isinstance(found, Node):
                self._check(path, found, chosen.device, known=not give.optional and not element)
                return path, found
            node = found
        if give.optional:
            return None
        raise self.missing(chosen.device, f"{path}: {node.reason}")

    def _check(self, path: str, node: Node, device: Device, *, known: bool) -> None:
        """What stands at the path has to be what was listed: a name may have gone to another device meanwhile.

        `known`: it was there when the device was listed, as it is required.
        """
        listed = next((other for other in device.nodes if other.path == node.path), None)
        if listed is None and known:
            raise self.missing(device, f"{path} is {node.path} {_numbered(node)} now, which was not listed")
        if listed is not None and listed != node:
            raise self.missing(device, f"{path} is {_numbered(node)} now, was listed as {_numbered(listed)}")

    def _add_node(self, to: str, give: NodeGive, found: tuple[str, Node]) -> str:
        path, node = found
        container = to + path.rpartition("/")[2] if to.endswith("/") else to
        earlier = self.nodes.get(container)
        if earlier is not None and (earlier.host, earlier.permissions) != (node.path, give.permissions):
            raise self._conflict(
                f"{container} would be both {earlier.host} {earlier.permissions} and {node.path} {give.permissions}"
            )
        self.nodes[container] = GrantedNode(node.path, container, give.permissions, node)
        return container

    def missing(self, device: Device, reason: str) -> Refused:
        text = f"{self._resource} {device.id}: {reason}; on the node: device-agent scan {device.place}"
        return Refused(Cause.NODE_MISSING, text)

    def _conflict(self, reason: str) -> Refused:
        return Refused(Cause.CONFLICT, f"{self._resource}: {reason}")


def _numbered(node: Node) -> str:
    return f"{'char' if node.type == 'c' else 'block'} {node.major}:{node.minor}"
