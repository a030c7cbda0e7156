"""CDI, the Container Device Interface: names of devices and the spec files that define them.

The rules are those of the library tags.cncf.io/container-device-interface 1.1. Both containerd and CRI-O use this
library.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from agent.core.language.template import compute_digest
from agent.core.language.value import Absent
from agent.core.struct import Struct, field

DIRECTORIES = ("/etc/cdi", "/var/run/cdi")  # default of runtimes; the later one has priority
SUFFIXES = (".json", ".yaml")  # of spec files; runtimes ignore `.yml`
ANNOTATION = "cdi.k8s.io/"  # prefix of annotation keys that name CDI devices
KEY_LIMIT = 63  # characters of such a key after the prefix

_KIND = r"[A-Za-z](?:[A-Za-z0-9_.-]*[A-Za-z0-9])?"
_QUALIFIER = re.compile(rf"{_KIND}/{_KIND}")
_DEVICE = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.:-]*[A-Za-z0-9])?")


class SpecError(ValueError):
    """The reason why a file is not a CDI spec."""


class SpecFile(Struct):
    """One file of a CDI directory: the qualified names of its devices, or the fault if the file is not a spec."""

    path: str
    names: tuple[str, ...] = ()
    fault: str = ""


class Specs(Struct):
    """All CDI devices that the spec files of a host define.

    directories: the directories that were read.
    paths: the file that defines each device.
    conflicts: devices that two files of one directory define. Runtimes give none of the two.
    faults: the fault of each file that is not a spec.
    """

    directories: tuple[str, ...] = DIRECTORIES
    paths: Mapping[str, str] = field(default_factory=dict)
    conflicts: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    faults: Mapping[str, str] = field(default_factory=dict)

    def find_file(self, name: str) -> str | Absent:
        """Return the file that defines a device with this qualified name, or the reason why no file does."""
        if not is_qualified_name(name):
            return Absent("is no full name of a CDI device")
        if name in self.conflicts:
            return Absent(f"is in both {' and '.join(self.conflicts[name])}, so no runtime knows which")
        if name in self.paths:
            return self.paths[name]
        reason = f"is in no CDI spec in {' or '.join(self.directories) or 'no directory'}"
        if self.faults:
            path, fault = next(iter(self.faults.items()))
            other_count = f" (and {len(self.faults) - 1} more)" if len(self.faults) > 1 else ""
            reason += f"; not read: {path}{other_count}: {fault}"
        return Absent(reason)


def is_qualified_name(text: str) -> bool:
    """Return whether a text is the qualified name of a device: `vendor/class=device`."""
    kind, _, device = text.partition("=")
    return _QUALIFIER.fullmatch(kind) is not None and _DEVICE.fullmatch(device) is not None


def parse_device_names(document: object) -> tuple[str, ...]:
    """Return the qualified names of the devices that a spec defines.

    Raises:
        SpecError: runtimes reject the document. Runtimes check more than this function does.
    """
    if not isinstance(document, Mapping):
        raise SpecError("is no table of keys and values")
    if not isinstance(document.get("cdiVersion"), str):
        raise SpecError("has no cdiVersion")
    kind = document.get("kind")
    if not isinstance(kind, str) or not _QUALIFIER.fullmatch(kind):
        raise SpecError(f"kind {kind!r} is not vendor/class")
    devices = document.get("devices")
    if not isinstance(devices, list) or not devices:
        raise SpecError("has no devices")
    names: dict[str, None] = {}
    for device in devices:
        name = device.get("name") if isinstance(device, Mapping) else None
        name = str(name) if isinstance(name, int) else name
        if not isinstance(name, str) or not _DEVICE.fullmatch(name):
            raise SpecError(f"{name!r} is no name of a device")
        if not device.get("containerEdits"):
            raise SpecError(f"device {name} has no containerEdits")
        if f"{kind}={name}" in names:
            raise SpecError(f"has device {name} twice")
        names[f"{kind}={name}"] = None
    return tuple(names)


def merge_specs(directories: Sequence[str], files: Iterable[SpecFile]) -> Specs:
    """Merge the files of all directories. The files come in the order of the directories."""
    paths: dict[str, str] = {}
    conflicts: dict[str, tuple[str, str]] = {}
    faults: dict[str, str] = {}
    for file in files:
        if file.fault:
            faults[file.path] = file.fault
        for name in file.names:
            earlier = paths.get(name)
            if earlier is not None and _get_directory(earlier) == _get_directory(file.path):
                conflicts[name] = (earlier, file.path)  # stays, even if a later directory also defines the device
            else:
                paths[name] = file.path
    return Specs(tuple(directories), paths, conflicts, faults)


def make_annotation_key(resource: str) -> str:
    """Return the key of the annotation that names the CDI devices of a resource.

    Each resource needs its own key. If two resources of a container had the same key, the kubelet would keep only
    the first.
    """
    name = f"device-agent_{resource.replace('/', '_')}"
    if len(name) > KEY_LIMIT:
        name = f"device-agent_{compute_digest(resource, 32)}"
    return ANNOTATION + name


def _get_directory(path: str) -> str:
    return path.rpartition("/")[0]
