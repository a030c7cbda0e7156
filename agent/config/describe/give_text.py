"""`give` as it is said: what a container gets."""

from __future__ import annotations

from collections.abc import Iterator

from agent.config.describe.clause_text import clause
from agent.config.describe.description_clause import DescriptionClause, instead, leaves, listed, text_of, value
from agent.config.merge.config_tree import Branch, Leaf

_VIA = {
    "kubelet": "all of it by the kubelet",
    "cdi": "all of it that is the same for every container by a CDI spec of our own, named in the field",
    "cdi-annotation": "all of it that is the same for every container by a CDI spec of our own, named in an annotation",
}
_RDMA = {"required": ["uverbs"], "optional": ["umad", "issm", "rdma_cm"]}


def given(give: Branch | None) -> Iterator[DescriptionClause]:
    """All that is given, what is given besides on a condition last."""
    if give is None:
        return
    yield from _things(give)
    if (via := give.get_leaf("via")) is not None:
        yield DescriptionClause(
            _VIA.get(str(via.value), f"all of it by {value(via.value)}"), via.spot, note=instead(via)
        )
    devinfo = give.get_branch("devinfo")
    if devinfo is not None:
        text = f"write the device-information file: {_members(devinfo)}"
        yield DescriptionClause(text, devinfo.spot, note=instead(*leaves(devinfo)))
    for _, also in _named(give, "also"):
        when = clause(also.get_branch("when"))
        yield DescriptionClause(f"and, when {when}, also" if when else "and also", also.spot)
        for said in _things(also):
            yield said.below()


def _things(give: Branch) -> Iterator[DescriptionClause]:
    vfio, rdma = give.get_branch("vfio"), give.get_branch("rdma")
    if vfio is not None:
        yield DescriptionClause(_vfio(vfio), vfio.spot, note=instead(*leaves(vfio)))
    if rdma is not None:
        yield DescriptionClause(_rdma(rdma), rdma.spot, note=instead(*leaves(rdma)))
    for place, say in (
        ("nodes", _node),
        ("mounts", _mount),
        ("env", _variable),
        ("annotations", _annotation),
        ("cdi", _cdi),
    ):
        for name, member in _named(give, place):
            yield DescriptionClause(say(name, member), member.spot, note=instead(*leaves(member)))


def _node(_: str, node: Branch) -> str:
    return f"give {_path(node)}{_permissions(node)}{_there(node)}{_when(node)}"


def _mount(_: str, mount: Branch) -> str:
    only = ", read only" if mount.is_on("read_only") else ""
    return f"mount {_path(mount)}{only}{_there(mount)}{_when(mount)}"


def _variable(key: str, variable: Branch) -> str:
    return f"say {_assignment(key, variable)}"


def _annotation(key: str, annotation: Branch) -> str:
    return f"annotate {_assignment(key, annotation)}"


def _cdi(_: str, device: Branch) -> str:
    unchecked = ", whether or not a spec has it" if device.is_on("unchecked") else ""
    name, via = text_of(device, "name"), text_of(device, "via", "field")
    return f"name the CDI device {name} ({via}){unchecked}{_when(device)}"


def _vfio(vfio: Branch) -> str:
    besides = ", also without an IOMMU" if vfio.is_on("noiommu") else ""
    to = vfio.get_leaf("to")
    at = f" as {listed(to.value, ' and ')}" if to else ""
    nodes = f"give the VFIO nodes ({text_of(vfio, 'backend', 'auto')}{besides}){at}"
    return f"{nodes}{_permissions(vfio)}{_when(vfio)}; healthy while its IOMMU group is viable"


def _rdma(rdma: Branch) -> str:
    said = {key: leaf.value if (leaf := rdma.get_leaf(key)) else default for key, default in _RDMA.items()}
    required, optional = listed(said["required"], " "), listed(said["optional"], " ")
    both = ", and ".join(filter(None, (required, f"{optional} if there" if optional else "")))
    return f"give the RDMA nodes {both}{_permissions(rdma)}{_when(rdma)}"


def _assignment(key: str, variable: Branch) -> str:
    name = text_of(variable, "name", key)
    json = variable.get_branch("json")
    if json is not None:
        each = variable.get_leaf("key")
        return f"{name} = JSON{f', for each {value(each.value)}' if each else ''}: {_members(json)}{_when(variable)}"
    join = variable.get_leaf("join")
    joined = f' for each, joined by "{join.value}"' if join else ""
    return f"{name} = {text_of(variable, 'value')}{joined}{_when(variable)}"


def _path(member: Branch) -> str:
    to = member.get_leaf("to")
    return text_of(member, "path") + (f" as {listed(to.value, ' and ')}" if to else "")


def _permissions(member: Branch) -> str:
    permissions = text_of(member, "permissions")
    return f" ({permissions})" if permissions not in {"", "rw"} else ""


def _there(member: Branch) -> str:
    return ", if there" if member.is_on("optional") else ""


def _when(member: Branch) -> str:
    when = clause(member.get_branch("when"))
    return f", when {when}" if when else ""


def _members(table: Branch, path: str = "") -> str:
    """An open table, each value by its address."""
    said: list[str] = []
    for key, node in table.members.items():
        address = f"{path}.{key}" if path else key
        if isinstance(node, Branch):
            said.append(_members(node, address))
        elif isinstance(node, Leaf):
            said.append(f"{address} = {value(node.value)}")
    return ", ".join(filter(None, said))


def _named(give: Branch, place: str) -> Iterator[tuple[str, Branch]]:
    branch = give.get_branch(place)
    yield from branch.list_branches() if branch else ()
