"""A grant for people, and for programs. Pure."""

from __future__ import annotations

from agent.cli.inventory.what import numbered
from agent.cli.terminal import pad
from agent.core.grants.grant import Grant
from agent.core.language.printable import columns, printable


def page(grant: Grant) -> list[str]:
    """A line for each thing that the container gets."""
    lines: list[tuple[str, str, str]] = []
    for node in grant.nodes:
        inside = "" if node.container == node.host else f"   in the container {printable(node.container, None)}"
        lines.append((f"node   {printable(node.host, None)}", numbered(node.node), f"{node.permissions}{inside}"))
    for mount in grant.mounts:
        inside = "" if mount.container == mount.host else f"   in the container {printable(mount.container, None)}"
        lines.append((f"mount  {printable(mount.host, None)}", "", f"{'ro' if mount.read_only else 'rw'}{inside}"))
    first, second = (max((columns(line[index]) for line in lines), default=0) for index in (0, 1))
    text = [f"  {pad(line[0], first)}   {pad(line[1], second)}   {line[2]}" for line in lines]
    text += [f"  cdi    {printable(name, None)}" for name in grant.cdi]
    text += [f"  env    {name}={printable(value, None)}" for name, value in grant.env.items()]
    text += [f"  note   {name}={printable(value, None)}" for name, value in grant.annotations.items()]
    text += [f"  file   {printable(info.name, None)}   (device information; not written now)" for info in grant.devinfo]
    return text or ["  nothing at all: the entry says nothing under give"]


def record(grant: Grant) -> dict[str, object]:
    """The same for programs."""
    return {
        "resource": grant.resource,
        "ids": [*grant.ids],
        "nodes": [
            {
                "host": node.host,
                "container": node.container,
                "permissions": node.permissions,
                "type": node.node.type,
                "major": node.node.major,
                "minor": node.node.minor,
            }
            for node in grant.nodes
        ],
        "mounts": [
            {"host": mount.host, "container": mount.container, "read_only": mount.read_only} for mount in grant.mounts
        ],
        "env": dict(grant.env),
        "annotations": dict(grant.annotations),
        "cdi": [*grant.cdi],
        "devinfo": {info.name: info.text for info in grant.devinfo},
    }
