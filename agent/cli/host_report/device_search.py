"""Find a host device by any name that users know."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence

from agent.cli.host_report.host_report import HostReport, HostReportItem
from agent.cli.host_report.scan_host import scan_host
from agent.cli.output import NO_SUCH_NAME, fail, is_json, print_json
from agent.config.load import Configuration
from agent.config.toml.finding import find_nearest
from agent.core.entry.resource_spec import Source
from agent.core.inventory.device import split_share
from agent.core.language.safe_text import escape, format_count, make_printable
from agent.core.language.value import Absent, OperandError, ValueType, is_equal, parse_operand
from agent.core.struct import Struct
from agent.host.root import Root
from agent.scanners import source_kinds

_SHOWN_NODES = 3  # device nodes of a directory with their names
_SHOWN_DEVICES = 8  # devices that are listed for an ambiguous name


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
        return PathHint(f'belongs to {name}; its entries write "./{relative_path}"', f"device-agent scan {name}")
    if path.startswith(("/sys/", "/proc/")):
        kind_text = "is a directory" if root.is_directory(path) else "is a file"
        return PathHint(f'{kind_text} of no device; a clause can read it as "{path}"')
    return PathHint("no source reads this path: devices are below /dev, /sys and /proc")


def _describe_dev_path(report: HostReport, path: str, root: Root) -> PathHint:
    if not root.is_directory(path):
        node = root.find_node(path)
        return PathHint(node.reason if isinstance(node, Absent) else "is a device node that no source lists")
    node_paths = [item.host.name for item in report.items if item.host.name.startswith(f"{path}/")]
    if not node_paths:
        return PathHint("is a directory without a device node in it")
    return PathHint(
        f"is a directory with {format_count(len(node_paths), 'device node')} in it", _build_scan_hint(node_paths)
    )


def _build_scan_hint(names: Sequence[str]) -> str:
    shown_names = ", ".join(make_printable(name, None) for name in names[:_SHOWN_NODES])
    return f"device-agent scan accepts each name: {shown_names}{', …' if len(names) > _SHOWN_NODES else ''}"


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


def resolve_device(
    arguments: argparse.Namespace,
    name: str,
    report: HostReport,
    configuration: Configuration,
    *,
    resources: Sequence[str] | None = None,
) -> tuple[HostReport, HostReportItem] | int:
    """Return the device and the report that contains it. If there is no device, print the reason and return the exit
    code.

    If the report has no source for the name, a second scan uses the subsystem of the device.

    resources: resource names that the command accepts too. None of them is equal to the name.
    """
    result = find_device(report, name)
    if isinstance(result, SearchFailure) and (source := find_unlisted_source(report.root, name)) is not None:
        report = scan_host(
            report.root,
            configuration.resources,
            extra_sources=(source,),
            cdi_directories=configuration.settings.paths.cdi,
        )
        result = find_device(report, name)
    if not isinstance(result, SearchFailure):
        return report, result
    if (path_hint := result.path_hint) is not None:
        if is_json(arguments):
            print_json(
                {"path": name, "device": None, "reason": path_hint.text, "next": path_hint.next_step or None}, arguments
            )
        else:
            print(f"{escape(name)}: no device: {path_hint.text}")
            print(f"  next         {path_hint.next_step}\n" if path_hint.next_step else "", end="")
        return 0
    nearest_name = find_nearest(name, resources or ())
    suggestions = (nearest_name,) if nearest_name else result.suggestions
    resource_text = "" if resources is None else ", and no such resource"
    shown_names = [make_printable(suggestion, None) for suggestion in suggestions]
    is_list = len(shown_names) > 1 and not is_json(arguments)
    hint = f"; nearest: {', '.join(shown_names)}" if shown_names and not is_list else ""
    fail(arguments, f"{name}: {result.reason}{resource_text}{hint}", NO_SUCH_NAME)
    for line in shown_names if is_list else ():
        print(f"  {line}", file=sys.stderr)
    return NO_SUCH_NAME


class SearchFailure(Struct):
    """The reason why a name has no device, with names to try. `path_hint` describes the path, if the name is a path."""

    reason: str
    suggestions: tuple[str, ...] = ()
    path_hint: PathHint | None = None


def find_device(report: HostReport, name: str) -> HostReportItem | SearchFailure:
    """Return the device that a name means, or the reason why there is none.

    The name is a path, an address, a kernel name, a serial number, a device ID, or the beginning of one of these.
    """
    for search in (_find_by_path, _find_by_address, _find_by_name, _find_by_serial):
        candidates = search(report, name)
        if candidates:
            return candidates[0]
    if name.startswith("/"):
        return _explain_missing_device(report, name)
    matches = [item for item in report.items if any(known_name.startswith(name) for known_name in _list_names(item))]
    if len({item.host.key for item in matches}) == 1:
        return matches[0]
    if matches:
        remainder = f" and {len(matches) - _SHOWN_DEVICES} more" if len(matches) > _SHOWN_DEVICES else ""
        return SearchFailure(
            f"{len(matches)} devices begin with this text{remainder}",
            tuple(item.host.name for item in matches[:_SHOWN_DEVICES]),
        )
    nearest_name = find_nearest(name, (known_name for item in report.items for known_name in _list_names(item)))
    return SearchFailure("no such device", (nearest_name,) if nearest_name else ())


def find_unlisted_source(root: Root, name: str) -> Source | None:
    """Return the subsystem of a device that no scanned source shows, or None.

    The name is a path below /sys, or a name in a class or bus.
    """
    if name.startswith("/sys/"):
        real = root.resolve(name)
        subsystem = Absent("") if isinstance(real, Absent) else root.read_link_name(f"{real}/subsystem")
        return None if isinstance(subsystem, Absent) else Source("subsystem", (subsystem,))
    if "/" in name or name in {"", ".", ".."}:
        return None
    for place, below in (("/sys/class", ""), ("/sys/bus", "/devices")):
        kinds = root.list_names(place)
        for kind in () if isinstance(kinds, Absent) else kinds:
            if root.exists(f"{place}/{kind}{below}/{name}"):
                return Source("subsystem", (kind,))
    return None


def _find_by_path(report: HostReport, name: str) -> Sequence[HostReportItem]:
    if not name.startswith("/"):
        return ()
    real = report.root.resolve(name)
    if isinstance(real, Absent):
        return _rank(item for item in report.items if item.host.name == name)
    path_items = [item for item in report.items if real in {item.host.directory, item.host.real_node}]
    return _rank([*path_items, *(item for item in report.items if item.host.node == real)])


def _find_by_address(report: HostReport, name: str) -> Sequence[HostReportItem]:
    """Return the device with a PCI address in any form. An address without function must match only one function."""
    try:
        address = parse_operand(ValueType.PCI, name)
    except OperandError:
        return ()
    items = [item for item in report.items if item.label == "pci" and is_equal(ValueType.PCI, item.host.name, address)]
    return items if len(items) == 1 else ()


def _find_by_name(report: HostReport, name: str) -> Sequence[HostReportItem]:
    (base, _), share = split_share(name)
    items = _rank(item for item in report.items if name in _list_names(item))
    return items or _rank(item for item in report.items if share is not None and base in _list_names(item))


def _find_by_serial(report: HostReport, name: str) -> Sequence[HostReportItem]:
    """Return the devices with the serial number of a USB device, or below that device. The number must be unique."""
    items = [item for item in report.items if report.read_fact(item, "usb.serial") == name]
    ports = {str(report.read_fact(item, "usb.port")) for item in items}
    return _rank(items) if len(ports) == 1 else ()


def _rank(items: Iterable[HostReportItem]) -> Sequence[HostReportItem]:
    """Return the items that are one device by precedence: items with an entry, items with mismatches, other items."""
    return sorted(items, key=lambda item: (item.entry is None, not item.mismatches))


def _list_names(item: HostReportItem) -> Iterable[str]:
    """Return the names of a device. Its paths and addresses are not among them."""
    host = item.host
    names = {host.name, host.name.removeprefix("/dev/"), host.location}
    if item.device is not None:
        names.add(item.device.id)
    if host.source == "pci" and host.name.startswith("0000:"):
        names.add(host.name.removeprefix("0000:"))
    return names


def _explain_missing_device(report: HostReport, path: str) -> SearchFailure:
    """Return the reason why a path is no device."""
    for skipped_paths in report.skipped_paths.values():
        for skipped_path in skipped_paths:
            if skipped_path.path == path:
                return SearchFailure(skipped_path.reason, path_hint=PathHint(skipped_path.reason))
    path_hint = find_path_hint(report, path)
    if path_hint is not None:
        return SearchFailure(path_hint.text, path_hint=path_hint)
    real = report.root.find_node(path) if path.startswith("/dev/") else report.root.resolve(path)
    reason = real.reason if isinstance(real, Absent) else "is no device"
    nearest_name = find_nearest(path, (item.host.name for item in report.items))
    return SearchFailure(reason, (nearest_name,) if nearest_name else ())
