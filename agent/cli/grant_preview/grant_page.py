"""A grant for people and for programs. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from agent.cli.grant_preview.dry_run import GeneratedSpec
from agent.cli.host_report.device_summary import format_node_number
from agent.cli.terminal import pad
from agent.core.grants.grant import Grant
from agent.core.language.safe_text import count_columns, make_printable


class GrantContext(NamedTuple):
    """Additional data for the page.

    full_grant: the grant with the content of the generated CDI spec.
    ids_by_path: the IDs that use each host path.
    generated_spec: the generated CDI spec, or None.
    devinfo_directory: directory of the device-information files.
    """

    full_grant: Grant
    ids_by_path: Mapping[str, tuple[str, ...]]
    generated_spec: GeneratedSpec | None
    devinfo_directory: str


class _Line(NamedTuple):
    path: str
    node_number: str
    access: str
    ids: str


def format_grant(grant: Grant, context: GrantContext) -> list[str]:
    """Return a line for each part of the grant."""
    text = [f"  {line}" for line in _format_lines(grant, context)]
    text += [f"  cdi    {make_printable(name, None)}" for name in grant.cdi]
    text += [f"  env    {name}={make_printable(value, None)}" for name, value in grant.env.items()]
    text += [f"  note   {name}={make_printable(value, None)}" for name, value in grant.annotations.items()]
    if grant.devinfo:
        remainder = f"and {len(grant.devinfo) - 1} more; " if len(grant.devinfo) > 1 else ""
        file = make_printable(f"{context.devinfo_directory}/{grant.devinfo[0].name}", None)
        text.append(f"  file   {file}   ({remainder}not written now)")
    if context.generated_spec:
        file = make_printable(context.generated_spec.file, None)
        text.append(f"  file   {file}   (the CDI spec; not written now), which says")
        text += [f"    {line}" for line in _format_lines(_subtract_grant(context.full_grant, grant), context)]
        spec_names = (name for name in context.full_grant.env if name not in grant.env)
        text += [f"    env    {name}={make_printable(context.full_grant.env[name], None)}" for name in spec_names]
    return text or ["  nothing at all: the entry says nothing under give"]


def build_grant_json(grant: Grant, spec: GeneratedSpec | None) -> dict[str, object]:
    """Return the grant for programs. spec: the generated CDI spec, or None."""
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
        "cdi_spec": None if spec is None else {"file": spec.file, "spec": spec.document},
    }


def _format_lines(grant: Grant, context: GrantContext) -> Iterable[str]:
    """Yield the nodes and mounts in columns."""
    lines = [
        *(
            _Line(
                f"node   {make_printable(node.host, None)}",
                format_node_number(node.node),
                f"{node.permissions}{_format_container_path(node.host, node.container)}",
                _format_ids(node.host, grant, context),
            )
            for node in grant.nodes
        ),
        *(
            _Line(
                f"mount  {make_printable(mount.host, None)}",
                "",
                f"{'ro' if mount.read_only else 'rw'}{_format_container_path(mount.host, mount.container)}",
                _format_ids(mount.host, grant, context),
            )
            for mount in grant.mounts
        ),
    ]
    widths = [max((count_columns(line[index]) for line in lines), default=0) for index in range(3)]
    for line in lines:
        cells = [pad(cell, width) for cell, width in zip(line, widths, strict=False)]
        yield "   ".join([*cells, line.ids]).rstrip()


def _format_container_path(host: str, container: str) -> str:
    return "" if container == host else f"   in the container {make_printable(container, None)}"


def _format_ids(path: str, grant: Grant, context: GrantContext) -> str:
    """Return the IDs that use a path, or `once` if all do. The text is empty if the grant has only one ID."""
    ids = context.ids_by_path.get(path, ())
    if len(grant.ids) < 2 or not ids:
        return ""
    return "once" if len(ids) == len(grant.ids) else " ".join(make_printable(id, None) for id in ids)  # noqa: A001


def _subtract_grant(full_grant: Grant, kubelet_grant: Grant) -> Grant:
    """Return the part of the full grant that the kubelet does not get."""
    nodes, mounts = set(kubelet_grant.nodes), set(kubelet_grant.mounts)
    return Grant(
        full_grant.resource,
        full_grant.ids,
        nodes=tuple(node for node in full_grant.nodes if node not in nodes),
        mounts=tuple(mount for mount in full_grant.mounts if mount not in mounts),
    )
