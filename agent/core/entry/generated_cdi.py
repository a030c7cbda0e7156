"""Generated CDI specs: their file names, their device names, their content, and the header that marks their files.

The rules are those of the library that runtimes share (tags.cncf.io/container-device-interface, SPEC.md and
specs-go/version.go). A spec declares the lowest version that has all features in use, because an older runtime
rejects a later version.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from agent.core.entry.cdi import is_qualified_name
from agent.core.language.template import compute_digest

Edits: TypeAlias = Mapping[str, Sequence[Any]]  # `containerEdits` without empty lists

PREFIX = "device-agent_"  # prefix of generated file names
MARK = b"# Written by device-agent"
SUFFIX = ".yaml"  # JSON is valid YAML, and YAML can begin with a comment
_SECTIONS = ("env", "deviceNodes", "mounts")
_VENDOR = "device-agent."
_VENDOR_LIMIT, _CLASS_LIMIT, _FILE_LIMIT = 253, 63, 200  # characters
_CLASS = re.compile(r"[A-Za-z](?:[A-Za-z0-9_.-]*[A-Za-z0-9])?")
_NOT_NAME = re.compile(r"[^A-Za-z0-9_.:-]")
_UNPRINTABLE = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")  # allowed in JSON, not in YAML


def make_kind(resource: str) -> str:
    """Return `vendor/class` of a resource. The vendor is a domain of this agent, so no vendor and no other resource
    has the same kind.
    """
    domain, _, name = resource.partition("/")
    vendor = f"{_VENDOR}{domain}"
    if len(vendor) > _VENDOR_LIMIT:
        vendor = f"{_VENDOR}{compute_digest(domain, 32)}"
    if len(name) > _CLASS_LIMIT or not _CLASS.fullmatch(name):
        name = f"r-{compute_digest(name, 32)}"  # a digest can begin with a digit
    return f"{vendor}/{name}"


def make_device_name(resource: str, id: str) -> str:  # noqa: A002  name in the API
    """Return the qualified name of the CDI device for a device ID."""
    name = f"{make_kind(resource)}={id}"
    if is_qualified_name(name):
        return name
    return f"{make_kind(resource)}={_NOT_NAME.sub('_', id).strip('_.:-')[:54] or 'd'}-{compute_digest(id, 8)}"


def make_file_name(resource: str) -> str:
    """Return the name of the spec file of a resource."""
    name = resource.replace("/", "_")
    return f"{PREFIX}{name if len(name) <= _FILE_LIMIT else compute_digest(resource, 32)}{SUFFIX}"


def make_header(owner: str) -> bytes:
    """Return the first line of a generated file. owner: the agent that wrote the file, if a machine has several
    agents.
    """
    return MARK + f" ({json.dumps(owner)}), which overwrites and removes it.\n".encode()


def build_spec(resource: str, devices: Mapping[str, Edits]) -> Mapping[str, Any]:
    """Return the spec of a resource. Edits that all devices share are written once, because a runtime applies them
    once.

    devices: the edits of each device, by qualified name. Each device has at least one edit, because the CDI rules
        require one.
    """
    shared_edits = _find_shared(list(devices.values()))
    device_list = [
        {"name": name.partition("=")[2], "containerEdits": _subtract(edits, shared_edits)}
        for name, edits in sorted(devices.items())
    ]
    return add_version(
        {
            "kind": make_kind(resource),
            **({"containerEdits": shared_edits} if shared_edits else {}),
            "devices": device_list,
        }
    )


def add_version(spec: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a spec with the lowest version that has all features in use.

    Names that begin with a digit and `hostPath` need 0.5.0. Dots in a class and annotations need 0.6.0.
    """
    devices = spec["devices"]
    all_edits = [spec.get("containerEdits", {}), *(device["containerEdits"] for device in devices)]
    version = "0.3.0"
    if any("hostPath" in node for edits in all_edits for node in edits.get("deviceNodes", ())) or any(
        device["name"][:1].isdigit() for device in devices
    ):
        version = "0.5.0"
    if "." in spec["kind"].partition("/")[2] or "annotations" in spec:
        version = "0.6.0"
    return {"cdiVersion": version, **spec}


def render_spec(document: Mapping[str, Any], owner: str) -> bytes:
    """Return the content of the spec file."""
    text = json.dumps(document, indent=1, ensure_ascii=False)
    return make_header(owner) + _UNPRINTABLE.sub(lambda match: f"\\u{ord(match[0]):04x}", text).encode() + b"\n"


def parse_spec(data: bytes, owner: str) -> dict[str, Edits] | None:
    """Return the edits of each device of a generated spec, by qualified name. Return None if another program wrote
    the file.
    """
    begin = make_header(owner)
    if not data.startswith(begin):
        return None
    try:
        spec = json.loads(data[len(begin) :])
        shared_edits = spec.get("containerEdits", {})
        return {
            f"{spec['kind']}={device['name']}": _add(device["containerEdits"], shared_edits)
            for device in spec["devices"]
        }
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}  # the header is ours and the content is damaged: nothing is reused


def _find_shared(edits: Sequence[Edits]) -> dict[str, list[Any]]:
    """Return the edits that all devices share. Return nothing if a device would have no other edit."""
    if len(edits) < 2:
        return {}
    first_edits, *other_edits = edits
    shared_edits = {
        section: [
            item
            for item in first_edits.get(section, ())
            if all(item in candidate_edits.get(section, ()) for candidate_edits in other_edits)
        ]
        for section in _SECTIONS
    }
    shared_edits = {section: items for section, items in shared_edits.items() if items}
    return shared_edits if all(_subtract(device_edits, shared_edits) for device_edits in edits) else {}


def _subtract(edits: Edits, shared_edits: Edits) -> dict[str, list[Any]]:
    sections = {
        section: [item for item in edits.get(section, ()) if item not in shared_edits.get(section, ())]
        for section in _SECTIONS
    }
    return {section: items for section, items in sections.items() if items}


def _add(edits: Edits, shared_edits: Edits) -> dict[str, list[Any]]:
    sections = {section: [*shared_edits.get(section, ()), *edits.get(section, ())] for section in _SECTIONS}
    return {section: items for section, items in sections.items() if items}
