"""The nodes of the RDMA device of a device (`give.rdma`), compiled like `give.nodes`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from agent.config.give.give_sections import GiveSection
from agent.config.give.nodes import compile_permissions
from agent.config.language.value_checks import RDMA
from agent.config.merge.config_tree import Branch
from agent.config.scope import Scope
from agent.config.values.templates import compile_template
from agent.core.entry.resource_spec import NodeGive
from agent.core.language.template import parse

REQUIRED, OPTIONAL = ("uverbs",), ("umad", "issm", "rdma_cm")  # defaults; some adapters do not have the optional nodes
# RDMA_CM has one node for all adapters (drivers/infiniband/core/ucma.c).
_COMMON_NODES = {"rdma_cm": "/dev/infiniband/rdma_cm"}
_RELATIONS = ("rdma", "pci.rdma")  # relations from a device to its RDMA device


def compile_rdma(sections: Sequence[GiveSection], scope: Scope) -> tuple[NodeGive, ...]:
    """Return the RDMA nodes of an entry. `given.rdma.NAME` is the container path of a node, and `given.rdma.name`
    the name of the RDMA device.
    """
    return tuple(
        node
        for section in sections
        if (branch := section.branch.get_branch("rdma")) is not None
        for node in _compile_nodes(branch, section, scope)
    )


def _compile_nodes(branch: Branch, section: GiveSection, scope: Scope) -> Iterator[NodeGive]:
    condition = section.compile_condition(branch, scope)
    permissions = compile_permissions(branch.get_leaf("permissions"), scope)
    required_names, optional_names = (_list_names(branch, key, default) for key, default in _SETS)
    if not (required_names or optional_names):
        message = f"{section.address}.rdma gives nothing: both required and optional are empty"
        scope.report_error(branch.spot, "missing", message, "write rdma = true, or take it out", mark="key")
        return
    if scope.source is not None and scope.source.kind == "fixed":
        message = f"{section.address}.rdma: a device of source fixed is nothing that has an RDMA device"
        scope.report_error(branch.spot, "type", message, 'write source = "infiniband"', mark="key")
        return
    relation = next((relation for relation in _RELATIONS if scope.has_word(f"{relation}.uverbs")), None)
    if relation is None or permissions is None or condition.is_never:
        return
    for name in RDMA:
        if name not in required_names and name not in optional_names:
            continue
        path = compile_template(branch.spot, _COMMON_NODES.get(name, f"{{{relation}.{name}}}"), scope, "a node's path")
        if path is not None:
            per_member, origin = path.varies_by_member or condition.per_member, branch.spot.origin
            optional_node = name not in required_names
            given_words = (("rdma.name", parse(f"{{{relation}.name}}")),) if name == "uverbs" else ()
            container_paths = (path.template,)
            yield NodeGive(
                f"rdma.{name}",
                path.template,
                container_paths,
                permissions,
                optional_node,
                origin,
                per_member,
                condition.clause,
                given_words=given_words,
            )


_SETS = (("required", REQUIRED), ("optional", OPTIONAL))


def _list_names(branch: Branch, key: str, default: Sequence[str]) -> Sequence[str]:
    """Return the names of a set. Invalid names were reported when the value was read."""
    leaf = branch.get_leaf(key)
    return default if leaf is None else [str(name) for name in leaf.value] if isinstance(leaf.value, list) else ()
