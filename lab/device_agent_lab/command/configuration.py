"""A configuration for this machine: a few lines of TOML for each device that exists here and that pods can use."""

from __future__ import annotations

import os
from collections.abc import Iterator

from agent.core.inventory.device import DeviceNode
from agent.core.language.glob import escape_glob
from agent.core.language.value import Absent
from agent.core.struct import Struct
from agent.host.root import Root
from agent.scanners.subsystem_listing import get_list_paths

PTY = "lab.example/pty"
PTY_ID = "pty"
_, _FUNCTIONS = get_list_paths("pci")
# PCI base classes, the most useful first. The first class that exists here becomes a resource.
_PCI_CLASSES = {"03": "display", "12": "accelerator", "02": "network", "01": "storage", "00": "function"}


class LabEntry(Struct):
    """One entry, written as a user would write it."""

    name: str
    toml: str


def build_entries(root: Root) -> Iterator[LabEntry]:
    """Yield entries for the devices of this machine, the best first.

    There is always an entry, because /dev/null exists everywhere.
    """
    for name in ("fuse", "kvm"):
        if isinstance(root.find_node(f"/dev/{name}"), DeviceNode):
            yield _build_entry(name, f'class    = "{name}"', "replicas = 10")
    if isinstance(root.find_node("/dev/net/tun"), DeviceNode):
        yield _build_entry("tun", 'class    = "tun"', "replicas = 10")
    if isinstance(root.find_node("/dev/loop0"), DeviceNode) and isinstance(
        root.find_node("/dev/loop-control"), DeviceNode
    ):
        yield _build_entry("loop", 'class    = "loop"')
    pci_classes = {_read_pci_class(root, name)[:2] for name in _list_pci_functions(root)}
    for base_class, word in _PCI_CLASSES.items():
        if base_class in pci_classes:
            yield _build_entry(f"pci-{word}", 'class    = "pci-function"', f'match    = {{ class = "{base_class}" }}')
            break
    if isinstance(root.find_node("/dev/null"), DeviceNode):
        yield _build_entry("null", 'class    = "node"', 'source   = { node = "/dev/null" }', "replicas = 10")


def build_pty_entry(path: str) -> LabEntry:
    """Return the entry for the lab's own terminal."""
    pattern = "/".join(escape_glob(part) for part in path.split("/"))
    return _build_entry(
        "pty",
        f'source   = {{ node = "{pattern}" }}',
        f'id       = "{PTY_ID}"',
        'give     = { nodes = { tty = { path = "{node}", to = "/dev/ttyLAB" } } }',
    )


def write_entries(directory: str, name: str, entries: list[LabEntry]) -> None:
    """Write entries to a file of a configuration directory. Raises OSError."""
    os.makedirs(f"{directory}/resources.d", exist_ok=True)
    with open(f"{directory}/resources.d/{name}", "w", encoding="utf-8") as file:
        file.write("\n".join(entry.toml for entry in entries))


def _build_entry(name: str, *lines: str) -> LabEntry:
    full_name = f"lab.example/{name}"
    return LabEntry(full_name, "\n".join(("[[resource]]", f'name     = "{full_name}"', *lines, "")))


def _list_pci_functions(root: Root) -> tuple[str, ...]:
    names = root.list_names(_FUNCTIONS)
    return () if isinstance(names, Absent) else names


def _read_pci_class(root: Root, name: str) -> str:
    text = root.read(f"{_FUNCTIONS}/{name}/class")
    return "" if isinstance(text, Absent) else text.removeprefix("0x")
