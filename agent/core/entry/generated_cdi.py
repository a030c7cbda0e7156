"""CDI specs of our own: how their devices are called, what they say, and how they are known as ours.

As the library has it that runtimes share (tags.cncf.io/container-device-interface, SPEC.md and specs-go/version.go).
A spec declares the lowest version that has what it uses: an older runtime knows no later one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from agent.core.entry.cdi import is_qualified_name
from agent.core.language.template import compute_digest

Edits: TypeAlias = Mapping[str, Sequence[Any]]  # `containerEdits`, what is empty left out

PREFIX = "device-agent_"  # what the names of our files begin with
MARK = b"# Written by device-agent"
SUFFIX = ".yaml"  # JSON is YAML, and YAML may begin with a line for people
_SECTIONS = ("env", "deviceNodes", "mounts")
_VENDOR = "device-agent."
_VENDOR_LIMIT, _CLASS_LIMIT, _FILE_LIMIT = 253, 63, 200  # characters
_CLASS = re.compile(r"[A-Za-z](?:[A-Za-z0-9_.-]*[A-Za-z0-9])?")
_NOT_NAME = re.compile(r"[^A-Za-z0-9_.:-]")
_UNPRINTABLE = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")  # in JSON, not in YAML


def make_kind(resource: str) -> str:
    """`vendor/class` of a resource: below its own domain, where no vendor's spec can be, and no other resource's."""
    domain, _, name = resource.partition("/")
    vendor = f"{_VENDOR}{domain}"
    if len(vendor) > _VENDOR_LIMIT:
        vendor = f"{_VENDOR}{compute_digest(domain, 32)}"
    if len(name) > _CLASS_LIMIT or not _CLASS.fullmatch(name):
        name = f"r-{compute_digest(name, 32)}"  # it begins with a digit
    return f"{vendor}/{name}"


def make_device_name(resource: str, id: str) -> str:  # noqa: A002  the API's own word
    """The full name of the CDI device that stands for a device of ours."""
    name = f"{make_kind(resource)}={id}"
    if is_qualified_name(name):
        return name
    return f"{make_kind(resource)}={_NOT_NAME.sub('_', id).strip('_.:-')[:54] or 'd'}-{compute_digest(id, 8)}"


def make_file_name(resource: str) -> str:
    """The name of the file with the spec of a resource."""
    name = resource.replace("/", "_")
    return f"{PREFIX}{name if len(name) <= _FILE_LIMIT else compute_digest(resource, 32)}{SUFFIX}"


def make_header(owner: str) -> bytes:
    """What our files begin with; owner: who of several agents on one machine."""
    return MARK + f" ({json.dumps(owner)}), which overwrites and removes it.\n".encode()


def build_spec(resource: str, devices: Mapping[str, Edits]) -> Mapping[str, Any]:
    """The spec of a resource: what all its devices have alike stands in it once, for a runtime applies that once.

    devices: by full name; none of them without any edit, as that would be no device.
    """
    shared = _find_shared(list(devices.values()))
    listed = [
        {"name": name.partition("=")[2], "containerEdits": _subtract(edits, shared)}
        for name, edits in sorted(devices.items())
    ]
    return add_version(
        {"kind": make_kind(resource), **({"containerEdits": shared} if shared else {}), "devices": listed}
    )


def add_version(spec: Mapping[str, Any]) -> Mapping[str, Any]:
    """A spec with the lowest version that has what is used: names that begin with a digit and `hostPath` are of 0.5.0,
    dots in a class and annotations of 0.6.0.
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
    """A spec as its file has it."""
    text = json.dumps(document, indent=1, ensure_ascii=False)
    return make_header(owner) + _UNPRINTABLE.sub(lambda match: f"\\u{ord(match[0]):04x}", text).encode() + b"\n"


def parse_spec(data: bytes, owner: str) -> dict[str, Edits] | None:
    """The devices of a spec of ours with all that they have, by full name; None if it is not ours."""
    begin = make_header(owner)
    if not data.startswith(begin):
        return None
    try:
        spec = json.loads(data[len(begin) :])
        shared = spec.get("containerEdits", {})
        return {
            f"{spec['kind']}={device['name']}": _add(device["containerEdits"], shared) for device in spec["devices"]
        }
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}  # ours by its mark, and spoilt: nothing of it is kept


def _find_shared(edits: Sequence[Edits]) -> dict[str, list[Any]]:
    """What all have alike; nothing if one of them would be left without any."""
    if len(edits) < 2:
        return {}
    first_edits, *other_edits = edits
    shared = {
        section: [
            item
            for item in first_edits.get(section, ())
            if all(item in candidate_edits.get(section, ()) for candidate_edits in other_edits)
        ]
        for section in _SECTIONS
    }
    shared = {section: items for section, items in shared.items() if items}
    return shared if all(_subtract(device_edits, shared) for device_edits in edits) else {}


def _subtract(edits: Edits, shared: Edits) -> dict[str, list[Any]]:
    sections = {
        section: [item for item in edits.get(section, ()) if item not in shared.get(section, ())]
        for section in _SECTIONS
    }
    return {section: items for section, items in sections.items() if items}


def _add(edits: Edits, shared: Edits) -> dict[str, list[Any]]:
    sections = {section: [*shared.get(section, ()), *edits.get(section, ())] for section in _SECTIONS}
    return {section: items for section, items in sections.items() if items}
