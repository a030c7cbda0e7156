"""Paths that lead to something and to no device: what is there, and where to go on from it."""

from __future__ import annotations

from collections.abc import Sequence

from agent.cli.host_report.host_report import HostReport
from agent.core.language.safe_text import format_count, make_printable
from agent.core.language.value import Absent
from agent.core.struct import Struct
from agent.host.root import Root
from agent.scanners import source_kinds

_SHOWN = 3  # devices that are named


class PathHint(Struct):
    """What is at a path that is no device's, and the next step to one (may be empty)."""

    text: str
    next_step: str = ""


def find_path_hint(inventory: HostReport, path: str) -> PathHint | None:
    """What is at a path, if anything is."""
    root = inventory.root
    real = root.resolve(path)
    if isinstance(real, Absent):
        return None
    if path.startswith("/dev/") or path == "/dev":
        return _below_dev(inventory, path.rstrip("/"), root)
    for place in ("/sys/class/", "/sys/bus/"):
        if path.startswith(place) and "/" not in path.removeprefix(place).rstrip("/"):
            name = path.removeprefix(place).rstrip("/")
            source = f'"{name}"' if name in source_kinds.KINDS else f'{{ subsystem = "{name}" }}'
            what = "a class" if place.startswith("/sys/class") else "a bus"
            return PathHint(f"{what} of the kernel: source = {source}", f"device-agent scan --words {name}")
    owner = _owner(inventory, real)
    if owner is not None:
        name, rest = owner
        return PathHint(f'is of {name}, whose entries say it as "./{rest}"', f"device-agent scan {name}")
    if path.startswith(("/sys/", "/proc/")):
        what = "is a directory" if root.is_directory(path) else "is a file"
        return PathHint(f'{what}, and no device\'s; any clause may ask it, as "{path}"')
    return PathHint("no source looks there: devices are below /dev, /sys and /proc")


def _below_dev(inventory: HostReport, path: str, root: Root) -> PathHint:
    if not root.is_directory(path):
        node = root.find_node(path)
        return PathHint(node.reason if isinstance(node, Absent) else "is a device node that no source could list")
    inside = [item.host.name for item in inventory.items if item.host.name.startswith(f"{path}/")]
    if not inside:
        return PathHint("is a directory without a device node in it")
    return PathHint(f"is a directory with {format_count(len(inside), 'device node')} in it", _first(inside))


def _first(names: Sequence[str]) -> str:
    shown = ", ".join(make_printable(name, None) for name in names[:_SHOWN])
    return f"device-agent scan takes each by its name: {shown}{', …' if len(names) > _SHOWN else ''}"


def _owner(inventory: HostReport, real: str) -> tuple[str, str] | None:
    """The device in whose directory this is, the nearest, and the way from there."""
    by_directory = {item.host.directory: item for item in inventory.items if item.host.directory}
    directory, rest = real, ""
    while directory.count("/") > 1:
        directory, _, step = directory.rpartition("/")
        rest = f"{step}/{rest}" if rest else step
        if (item := by_directory.get(directory)) is not None:
            return make_printable(item.host.name, None), rest
    return None
