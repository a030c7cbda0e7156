"""Formats of a grant for other programs: a CDI spec, and arguments of docker, podman and ctr. Pure."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

from agent.cli.grant_preview.dry_run import GeneratedSpec
from agent.cli.host_report.device_summary import format_node_number
from agent.cli.terminal import pad
from agent.core.entry.cdi import is_qualified_name
from agent.core.entry.generated_cdi import add_version, make_kind
from agent.core.grants.container_edits import build_container_edits
from agent.core.grants.grant import Grant, GrantedMount, GrantedNode
from agent.core.language.safe_text import count_columns, make_printable

CDI_NAME = "grant"  # name of the only device in the spec


class UnsupportedGrantError(Exception):
    """A format cannot express a part of the grant. The text contains the next step."""


ArgumentBuilder: TypeAlias = Callable[[Grant], list[str]]


def build_cdi_spec(grant: Grant) -> Mapping[str, object]:
    """Return a CDI spec with one device, which is the grant. The device includes the content of the generated CDI
    spec.
    """
    document = {
        "kind": build_cdi_name(grant).partition("=")[0],
        **({"annotations": dict(grant.annotations)} if grant.annotations else {}),
        "devices": [{"name": CDI_NAME, "containerEdits": build_container_edits(grant.nodes, grant.mounts, grant.env)}],
    }
    return add_version(document)


def build_cdi_name(grant: Grant) -> str:
    """Return the full name of that device: RESOURCE=grant, or a valid CDI kind if the resource name is none."""
    name = f"{grant.resource}={CDI_NAME}"
    return name if is_qualified_name(name) else f"{make_kind(grant.resource)}={CDI_NAME}"


def build_docker_arguments(grant: Grant) -> list[str]:
    """Return the arguments of `docker run`. `podman run` has the same arguments."""
    return [
        *(argument for node in grant.nodes for argument in ("--device", _format_device(node))),
        *(argument for name in grant.cdi for argument in ("--device", name)),
        *(argument for mount in grant.mounts for argument in ("--mount", _format_mount(mount, "source", "target"))),
        *_format_pairs("--env", grant.env),
        *_format_pairs("--annotation", grant.annotations),
    ]


def build_ctr_arguments(grant: Grant) -> list[str]:
    """Return the arguments of containerd's `ctr run`. ctr gives each node under its host path, with read, write and
    mknod.

    Raises:
            UnsupportedGrantError: a node has another path in the container.
    """
    for node in grant.nodes:
        if node.container != node.host:
            raise UnsupportedGrantError(f"ctr cannot give {node.host} as {node.container}: {_suggest_cdi(grant)}")
    return [
        *(argument for node in grant.nodes for argument in ("--device", node.host)),
        *(argument for name in grant.cdi for argument in ("--device", name)),
        *(argument for mount in grant.mounts for argument in ("--mount", _format_mount(mount, "src", "dst"))),
        *_format_pairs("--env", grant.env),
        *_format_pairs("--annotation", grant.annotations),
    ]


ARGUMENT_BUILDERS: Mapping[str, ArgumentBuilder] = MappingProxyType(
    {"podman": build_docker_arguments, "docker": build_docker_arguments, "ctr": build_ctr_arguments}
)


def list_notes(grant: Grant, form: str) -> Iterator[str]:
    """Yield notes about a format for the administrator."""
    if form == "cdi" and grant.cdi:
        names = ", ".join(make_printable(name, None) for name in grant.cdi)
        yield f"a CDI spec cannot name other CDI devices; give the container these as well: {names}"
    if form == "ctr":
        if any(node.permissions != "rwm" for node in grant.nodes):
            yield "ctr gives every node to read, write and make (rwm); the kubelet gives what the grant says"
        if grant.cdi:
            yield "CDI devices are known to ctr since containerd 1.7"


def _format_device(node: GrantedNode) -> str:
    for path in (node.host, node.container):
        if ":" in path:
            raise UnsupportedGrantError(f"{path} has a colon, which --device takes for a separator: write --as cdi")
    return f"{node.host}:{node.container}:{node.permissions}"


def _format_mount(mount: GrantedMount, source: str, target: str) -> str:
    """Return a mount as one CSV line, which these programs expect."""
    fields = ["type=bind", f"{source}={mount.host}", f"{target}={mount.container}"]
    if source == "src":  # ctr needs the option to make a bind mount
        fields.append(f"options=rbind:{'ro' if mount.read_only else 'rw'}")
    elif mount.read_only:
        fields.append("readonly")
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(fields)
    return line.getvalue()


def _format_pairs(flag: str, values: Mapping[str, str]) -> Iterator[str]:
    for name, value in values.items():
        yield flag
        yield f"{name}={value}"


def _suggest_cdi(grant: Grant) -> str:
    return f"write --as cdi into a file of /etc/cdi, and --device {build_cdi_name(grant)}"


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
