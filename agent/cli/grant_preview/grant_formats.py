"""A grant in the forms of others: a CDI spec, and the arguments of docker, podman and ctr. Pure."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import TypeAlias

from agent.core.entry.cdi import is_qualified_name
from agent.core.entry.generated_cdi import add_version, make_kind
from agent.core.grants.container_edits import edits
from agent.core.grants.grant import Grant, GrantedMount, GrantedNode
from agent.core.language.safe_text import make_printable

CDI_NAME = "grant"  # of the one device in the spec


class UnsupportedGrantError(Exception):
    """Something of a grant that a form has no way to say, and what to do."""


ArgumentBuilder: TypeAlias = Callable[[Grant], list[str]]


def build_cdi_spec(grant: Grant) -> Mapping[str, object]:
    """The spec of one CDI device that is the grant (`cdi_name`), with what a spec of the agent's own would say."""
    document = {
        "kind": build_cdi_name(grant).partition("=")[0],
        **({"annotations": dict(grant.annotations)} if grant.annotations else {}),
        "devices": [{"name": CDI_NAME, "containerEdits": edits(grant.nodes, grant.mounts, grant.env)}],
    }
    return add_version(document)


def build_cdi_name(grant: Grant) -> str:
    """The full name of that device: RESOURCE=grant, where a kind of CDI may be called as the resource is."""
    name = f"{grant.resource}={CDI_NAME}"
    return name if is_qualified_name(name) else f"{make_kind(grant.resource)}={CDI_NAME}"


def build_docker_arguments(grant: Grant) -> list[str]:
    """The arguments of `docker run` and `podman run`, which agree on these."""
    return [
        *(argument for node in grant.nodes for argument in ("--device", _format_device(node))),
        *(argument for name in grant.cdi for argument in ("--device", name)),
        *(argument for mount in grant.mounts for argument in ("--mount", _format_mount(mount, "source", "target"))),
        *_format_pairs("--env", grant.env),
        *_format_pairs("--annotation", grant.annotations),
    ]


def build_ctr_arguments(grant: Grant) -> list[str]:
    """The arguments of containerd's `ctr run`, which gives each node under its own path, to read, write and make."""
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
    """What a person should know of a form."""
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
    """A mount as one line of CSV, as these programs read it."""
    fields = ["type=bind", f"{source}={mount.host}", f"{target}={mount.container}"]
    if source == "src":  # ctr does not bind by itself
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
