"""The description of `give`: what a container gets."""

from __future__ import annotations

from collections.abc import Iterator

from agent.config.describe.clause_text import describe_clause
from agent.config.describe.description_clause import (
    DescriptionClause,
    describe_node,
    format_list,
    format_value,
    get_text,
)
from agent.config.merge.config_tree import Branch, Leaf

_VIA = {
    "kubelet": "all of it by the kubelet",
    "cdi": "all of it that is the same for every container by a CDI spec of our own, named in the field",
    "cdi-annotation": "all of it that is the same for every container by a CDI spec of our own, named in an annotation",
}
_RDMA = {"required": ["uverbs"], "optional": ["umad", "issm", "rdma_cm"]}


def describe_give(give: Branch | None) -> Iterator[DescriptionClause]:
    """Yield the description of `give`. The conditional sections (`give.also`) are last."""
    if give is None:
        return
    yield from _describe_section(give)
    if (via := give.get_leaf("via")) is not None:
        yield describe_node(_VIA.get(str(via.value), f"all of it by {format_value(via.value)}"), via)
    devinfo = give.get_branch("devinfo")
    if devinfo is not None:
        text = f"write the device-information file: {_describe_members(devinfo)}"
        yield describe_node(text, devinfo)
    for _, section in give.list_branches("also"):
        condition = describe_clause(section.get_branch("when"))
        yield DescriptionClause(f"and, when {condition}, also" if condition else "and also", section.spot)
        for section_clause in _describe_section(section):
            yield section_clause.indent()


def _describe_section(give: Branch) -> Iterator[DescriptionClause]:
    vfio, rdma = give.get_branch("vfio"), give.get_branch("rdma")
    if vfio is not None:
        yield describe_node(_describe_vfio(vfio), vfio)
    if rdma is not None:
        yield describe_node(_describe_rdma(rdma), rdma)
    for place, describe in (
        ("nodes", _describe_node),
        ("mounts", _describe_mount),
        ("env", _describe_variable),
        ("annotations", _describe_annotation),
        ("cdi", _describe_cdi),
    ):
        for name, member in give.list_branches(place):
            yield describe_node(describe(name, member), member)


def _describe_node(_: str, node: Branch) -> str:
    return (
        f"give {_describe_path(node)}{_describe_permissions(node)}{_describe_optional(node)}{_describe_condition(node)}"
    )


def _describe_mount(_: str, mount: Branch) -> str:
    read_only_text = ", read only" if mount.is_on("read_only") else ""
    return f"mount {_describe_path(mount)}{read_only_text}{_describe_optional(mount)}{_describe_condition(mount)}"


def _describe_variable(key: str, variable: Branch) -> str:
    return f"say {_describe_assignment(key, variable)}"


def _describe_annotation(key: str, annotation: Branch) -> str:
    return f"annotate {_describe_assignment(key, annotation)}"


def _describe_cdi(_: str, device: Branch) -> str:
    unchecked_text = ", whether or not a spec has it" if device.is_on("unchecked") else ""
    name, via = get_text(device, "name"), get_text(device, "via", "field")
    return f"name the CDI device {name} ({via}){unchecked_text}{_describe_condition(device)}"


def _describe_vfio(vfio: Branch) -> str:
    besides = ", also without an IOMMU" if vfio.is_on("noiommu") else ""
    path_leaf = vfio.get_leaf("to")
    path_text = f" as {format_list(path_leaf.value, ' and ')}" if path_leaf else ""
    nodes = f"give the VFIO nodes ({get_text(vfio, 'backend', 'auto')}{besides}){path_text}"
    return f"{nodes}{_describe_permissions(vfio)}{_describe_condition(vfio)}; healthy while its IOMMU group is viable"


def _describe_rdma(rdma: Branch) -> str:
    nodes = {key: leaf.value if (leaf := rdma.get_leaf(key)) else default for key, default in _RDMA.items()}
    required_text, optional_text = format_list(nodes["required"], " "), format_list(nodes["optional"], " ")
    both = ", and ".join(filter(None, (required_text, f"{optional_text} if there" if optional_text else "")))
    return f"give the RDMA nodes {both}{_describe_permissions(rdma)}{_describe_condition(rdma)}"


def _describe_assignment(key: str, variable: Branch) -> str:
    name = get_text(variable, "name", key)
    json = variable.get_branch("json")
    if json is not None:
        key_leaf = variable.get_leaf("key")
        key_text = f", for each {format_value(key_leaf.value)}" if key_leaf else ""
        return f"{name} = JSON{key_text}: {_describe_members(json)}{_describe_condition(variable)}"
    join = variable.get_leaf("join")
    separator_text = f' for each, joined by "{join.value}"' if join else ""
    return f"{name} = {get_text(variable, 'value')}{separator_text}{_describe_condition(variable)}"


def _describe_path(member: Branch) -> str:
    path_leaf = member.get_leaf("to")
    return get_text(member, "path") + (f" as {format_list(path_leaf.value, ' and ')}" if path_leaf else "")


def _describe_permissions(member: Branch) -> str:
    permissions = get_text(member, "permissions")
    return f" ({permissions})" if permissions not in {"", "rw"} else ""


def _describe_optional(member: Branch) -> str:
    return ", if there" if member.is_on("optional") else ""


def _describe_condition(member: Branch) -> str:
    condition = describe_clause(member.get_branch("when"))
    return f", when {condition}" if condition else ""


def _describe_members(table: Branch, path: str = "") -> str:
    """Return an open table as text, each value with its address."""
    texts: list[str] = []
    for key, node in table.members.items():
        address = f"{path}.{key}" if path else key
        if isinstance(node, Branch):
            texts.append(_describe_members(node, address))
        elif isinstance(node, Leaf):
            texts.append(f"{address} = {format_value(node.value)}")
    return ", ".join(filter(None, texts))
