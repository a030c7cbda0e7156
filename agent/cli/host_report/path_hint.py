"""Hints about paths that exist and are no device."""

from __future__ import annotations

from collections.abc import Sequence

from agent.cli.host_report.host_report import HostReport
from agent.core.language.safe_text import format_count, make_printable
from agent.core.language.value import Absent
from agent.core.struct import Struct
from agent.host.root import Root
from agent.scanners import source_kinds

_SHOWN = 3  # devices with their names


class PathHint(Struct):
    """A description of a path that is no device, and the next step. The next step may be empty."""

    text: str
    next_step: str = ""


def find_path_hint(report: HostReport, path: str) -> PathHint | None:
    """Return the hint about a path, or None if the path does not exist."""
    root = report.root
    real = root.resolve(path)
    if isinstance(real, Absent):
        return None
    if path.startswith("/dev/") or path == "/dev":
        return _describe_dev_path(report, path.rstrip("/"), root)
    for prefix in ("/sys/class/", "/sys/bus/"):
        if path.startswith(prefix) and "/" not in path.removeprefix(prefix).rstrip("/"):
            name = path.removeprefix(prefix).rstrip("/")
            source = f'"{name}"' if name in source_kinds.KINDS else f'{{ subsystem = "{name}" }}'
            kind_text = "a class" if prefix.startswith("/sys/class") else "a bus"
            return PathHint(f"{kind_text} of the kernel: source = {source}", f"device-agent scan --words {name}")
    owner = _find_owner(report, real)
    if owner is not None:
        name, relative_path = owner
        return PathHint(f'is of {name}, whose entries say it as "./{relative_path}"', f"device-agent scan {name}")
    if path.startswith(("/sys/", "/proc/")):
        kind_text = "is a directory" if root.is_directory(path) else "is a file"
        return PathHint(f'{kind_text}, and no device\'s; any clause may ask it, as "{path}"')
    return PathHint("no source looks there: devices are below /dev, /sys and /proc")


def _describe_dev_path(report: HostReport, path: str, root: Root) -> PathHint:
    if not root.is_directory(path):
        node = root.find_node(path)
        return PathHint(node.reason if isinstance(node, Absent) else "is a device node that no source could list")
    node_paths = [item.host.name for item in report.items if item.host.name.startswith(f"{path}/")]
    if not node_paths:
        return PathHint("is a directory without a device node in it")
    return PathHint(
        f"is a directory with {format_count(len(node_paths), 'device node')} in it", _build_scan_hint(node_paths)
    )


def _build_scan_hint(names: Sequence[str]) -> str:
    shown_names = ", ".join(make_printable(name, None) for name in names[:_SHOWN])
    return f"device-agent scan takes each by its name: {shown_names}{', …' if len(names) > _SHOWN else ''}"


def _find_owner(report: HostReport, real: str) -> tuple[str, str] | None:
    """Return the name of the nearest device above a path, and the relative path from its directory."""
    items_by_directory = {item.host.directory: item for item in report.items if item.host.directory}
    directory, relative_path = real, ""
    while directory.count("/") > 1:
        directory, _, part = directory.rpartition("/")
        relative_path = f"{part}/{relative_path}" if relative_path else part
        if (item := items_by_directory.get(directory)) is not None:
            return make_printable(item.host.name, None), relative_path
    return None
