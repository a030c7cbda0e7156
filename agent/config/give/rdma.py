"""`give.rdma`: the nodes of the RDMA device that a device is, carries or sits on, as `give.nodes` would name them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from agent.config.give.give_sections import GiveSection
from agent.config.give.nodes import permissions_of
from agent.config.language.value_checks import RDMA
from agent.config.merge.config_tree import Branch
from agent.config.scope import Scope
from agent.config.values.templates import compile_template
from agent.core.entry.resource_spec import NodeGive
from agent.core.language.template import parse

REQUIRED, OPTIONAL = ("uverbs",), ("umad", "issm", "rdma_cm")  # unless said; not every adapter has the others
# The one node that is not of any adapter: RDMA_CM's (drivers/infiniband/core/ucma.c).
_OF_ALL = {"rdma_cm": "/dev/infiniband/rdma_cm"}
_WAYS = ("rdma", "pci.rdma")  # from a device to its RDMA device


def compile_rdma(parts: Sequence[GiveSection], scope: Scope) -> tuple[NodeGive, ...]:
    """The RDMA nodes of an entry; where one comes out is `given.rdma.NAME`, and `given.rdma.name` whose they are."""
    return tuple(
        node
        for part in parts
        if (branch := part.branch.get_branch("rdma")) is not None
        for node in _nodes(branch, part, scope)
    )


def _nodes(branch: Branch, part: GiveSection, scope: Scope) -> Iterator[NodeGive]:
    when = part.when(branch)
    permissions = permissions_of(branch.get_leaf("permissions"), scope)
    required, optional = (_names(branch, key, default) for key, default in _SETS)
    if not (required or optional):
        message = f"{part.address}.rdma gives nothing: both required and optional are empty"
        scope.report(branch.spot.make_error("missing", message, "write rdma = true, or take it out", mark="key"))
        return
    if scope.source is not None and scope.source.kind == "fixed":
        message = f"{part.address}.rdma: a device of source fixed is nothing that has an RDMA device"
        scope.report(branch.spot.make_error("type", message, 'write source = "infiniband"', mark="key"))
        return
    way = next((way for way in _WAYS if scope.has_word(f"{way}.uverbs")), None)
    if way is None or permissions is None or when.never:
        return
    for name in RDMA:
        if name not in required and name not in optional:
            continue
        path = compile_template(branch.spot, _OF_ALL.get(name, f"{{{way}.{name}}}"), scope, "a node's path")
        if path is not None:
            each, origin = path.varies_by_member or when.each, branch.spot.origin
            need_not = name not in required
            tells = (("rdma.name", parse(f"{{{way}.name}}")),) if name == "uverbs" else ()
            to = (path.template,)
            yield NodeGive(
                f"rdma.{name}", path.template, to, permissions, need_not, origin, each, when.clause, given_words=tells
            )


_SETS = (("required", REQUIRED), ("optional", OPTIONAL))


def _names(branch: Branch, key: str, default: Sequence[str]) -> Sequence[str]:
    """What a set says; values that it cannot have were reported where they are written."""
    leaf = branch.get_leaf(key)
    return default if leaf is None else [str(name) for name in leaf.value] if isinstance(leaf.value, list) else ()
