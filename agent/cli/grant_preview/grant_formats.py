"""Formats of a grant for other programs: a CDI spec, and arguments of docker, podman and ctr. Pure."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import TypeAlias

from agent.core.entry.cdi import is_qualified_name
from agent.core.entry.generated_cdi import add_version, make_kind
from agent.core.grants.container_edits import build_container_edits
from agent.core.grants.grant import Grant, GrantedMount, GrantedNode
from agent.core.language.safe_text import make_printable

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
