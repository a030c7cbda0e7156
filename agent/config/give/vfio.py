"""VFIO (`give.vfio`): the nodes of a backend, and the check of the IOMMU group.

The nodes use words that follow the rules of the kernel (`agent.scanners.vfio_words`). Clauses decide which nodes are
given. Each grant evaluates them again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from agent.config.give.give_sections import GiveCondition, GiveSection
from agent.config.give.nodes import compile_container_paths, compile_permissions, find_collision
from agent.config.merge.config_tree import Branch
from agent.config.scope import Scope
from agent.config.values.templates import CompiledTemplate, compile_path
from agent.core.entry.check import Check
from agent.core.entry.clause_check import ClauseCheck
from agent.core.entry.resource_spec import NodeGive, VfioGive
from agent.core.language.clause import Clause, ClauseLine, EitherLine, Origin
from agent.core.language.operators import Equals, Exists, Test
from agent.core.language.template import parse
from agent.core.language.value import ValueType
from agent.core.struct import MutableStruct, Struct, replace

CHECK = "vfio"  # name of the check of the IOMMU group
SOURCES = ("pci", "mdev")  # source kinds with VFIO devices
_ADDRESS = "give.vfio"
_REASON = parse("IOMMU group {iommu.group} is not viable: {iommu.blocked_by}")


class VfioGives(Struct):
    """The nodes of VFIO, and the conditions under which the entry uses VFIO."""

    nodes: tuple[NodeGive, ...]
    gives: tuple[VfioGive, ...]

    def build_check(self) -> Check | None:
        """Return the check of the IOMMU group, or None if the entry does not use VFIO."""
        if not self.gives:
            return None
        origin = self.gives[0].origin
        viable = _make_line("iommu.viable", ValueType.BOOL, Equals(True), "true", origin)
        clauses = [give.condition for give in self.gives if give.condition is not None]
        condition: Clause | None = None
        if len(clauses) == len(self.gives):
            either = EitherLine(f"health.{CHECK}.when", tuple(clauses), "", origin)
            condition = clauses[0] if len(clauses) == 1 else Clause(either.address, (either,), origin)
        return Check(
            CHECK,
            ClauseCheck(Clause(f"health.{CHECK}", (viable,), origin)),
            condition=condition,
            reason=_REASON,
            recheck_on_allocate=True,
        )


def compile_vfio(sections: Sequence[GiveSection], scope: Scope, *, is_shared: bool) -> VfioGives:
    """Return what an entry gives by VFIO. VFIO cannot share a device, so a shared one is reported."""
    nodes: list[NodeGive] = []
    gives: list[VfioGive] = []
    for section in sections:
        branch = section.branch.get_branch("vfio")
        if branch is None:
            continue
        condition = section.compile_condition(branch, scope)
        section_nodes = _compile_section(branch, condition, scope)
        if is_shared:
            message = "VFIO hands a function out to one user at a time, and here one device is given to several"
            scope.report_error(branch.spot, "type", message, "take replicas or slots out", mark="key")
        if section_nodes and not condition.is_never:
            nodes += section_nodes
            gives.append(VfioGive(branch.spot.origin, condition.clause))
    return VfioGives(tuple(nodes), tuple(gives))


def _compile_section(branch: Branch, condition: GiveCondition, scope: Scope) -> list[NodeGive]:
    """Return the nodes of one `give.vfio`, or an empty list. Faults are reported."""
    spot = branch.spot
    if scope.source is not None and scope.source.kind not in SOURCES:
        message = f"VFIO hands out PCI functions and mediated devices, and the source is {scope.source.kind}"
        scope.report_error(spot, "type", message, 'write source = "pci" or "mdev"', mark="key")
        return []
    leaf = branch.get_leaf("backend")
    backend = str(leaf.value) if leaf else "auto"
    permissions = compile_permissions(branch.get_leaf("permissions"), scope)
    container_path = _compile_container_path(branch, scope)
    has_unused_keys = backend == "iommufd" and _has_group_keys(branch, scope)
    if permissions is None or container_path is None or has_unused_keys:
        return []
    return list(
        _NodeBuilder(spot.origin, permissions, container_path, condition, scope).build_nodes(
            backend, noiommu=branch.is_on("noiommu")
        )
    )


def _has_group_keys(branch: Branch, scope: Scope) -> bool:
    """Return whether the table has keys for the group node, which iommufd does not use. Such keys are reported."""
    leaves = [leaf for leaf in (branch.get_leaf("to"), branch.get_leaf("noiommu")) if leaf is not None and leaf.value]
    for leaf in leaves:
        message = f"{leaf.spot.path[-1]} is about the group's node, and with iommufd that is not given"
        scope.report_error(leaf.spot, "type", message, 'leave it out, or write backend = "both"', mark="key")
    return bool(leaves)


def _compile_container_path(branch: Branch, scope: Scope) -> CompiledTemplate | None:
    """Return the container path of the group node, or None. Faults are reported."""
    path = compile_path(branch.spot, "{vfio.group}", scope, "a node's path", container=False)
    leaf = branch.get_leaf("to")
    if path is None or leaf is None:
        return compile_path(branch.spot, "/dev/vfio/{iommu.group}", scope, "to", container=True)
    paths = compile_container_paths(leaf, scope)
    if paths is None:
        return None
    if (fault := find_collision(path, paths[0])) is not None:
        target, message, write = fault
        scope.report_error(target.spot, "differs-between-devices", message, write, mark="text")
        return None
    return paths[0]


class _NodeBuilder(MutableStruct):
    """The common fields of all nodes of one `give.vfio`."""

    origin: Origin
    permissions: str
    container_path: CompiledTemplate
    condition: GiveCondition
    scope: Scope

    def build_nodes(self, backend: str, *, noiommu: bool) -> Iterator[NodeGive]:
        """Yield the nodes of a backend. The iommufd nodes need the character device of the function, except with
        backend `iommufd`.
        """
        cdev_present, cdev_absent = (
            _make_line(
                "vfio.cdev", ValueType.PATH, Exists(expected), f"{{ exists = {str(expected).lower()} }}", self.origin
            )
            for expected in (True, False)
        )
        if backend != "iommufd":
            legacy = [cdev_absent] if backend == "auto" else []
            yield self._build_node("vfio.control", "/dev/vfio/vfio", legacy)
            if not noiommu:
                yield self._build_group_node("{vfio.group}", legacy)
            for has_noiommu in (False, True) if noiommu else ():
                noiommu_line = _make_line(
                    "iommu.noiommu", ValueType.BOOL, Equals(has_noiommu), str(has_noiommu).lower(), self.origin
                )
                yield self._build_group_node(
                    "{vfio.noiommu}" if has_noiommu else "{vfio.group}", [*legacy, noiommu_line]
                )
        if backend != "legacy":
            cdev_lines = [] if backend == "iommufd" else [cdev_present]
            yield self._build_node("vfio.iommufd", "/dev/iommu", cdev_lines)
            yield replace(self._build_node("vfio.cdev", "{vfio.cdev}", cdev_lines), per_member=self.scope.is_grouped)

    def _build_group_node(self, path: str, lines: list[ClauseLine]) -> NodeGive:
        node = self._build_node("vfio.group", path, lines)
        return replace(node, container_paths=(self.container_path.template,), per_member=self.scope.is_grouped)

    def _build_node(self, name: str, path: str, lines: list[ClauseLine]) -> NodeGive:
        """Return a node with the condition of the entry and these lines."""
        condition_lines = self.condition.clause.lines if self.condition.clause else ()
        clause = Clause(_ADDRESS, (*condition_lines, *lines), self.origin) if condition_lines or lines else None
        text = parse(path)
        return NodeGive(name, text, (text,), self.permissions, optional=False, origin=self.origin, condition=clause)


def _make_line(word: str, kind: ValueType, test: Test, written: str, origin: Origin) -> ClauseLine:
    return ClauseLine(f"{_ADDRESS}: {word}", word, kind, test, written, origin)
