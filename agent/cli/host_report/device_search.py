"""Finding a host device by any name that people have at hand."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from agent.cli.host_report.host_report import HostReport, HostReportItem
from agent.cli.host_report.path_hint import PathHint, find_path_hint
from agent.config.toml.finding import find_nearest
from agent.core.entry.resource_spec import Source
from agent.core.inventory.device import split_share
from agent.core.language.value import Absent, OperandError, ValueType, is_equal, parse_operand
from agent.core.struct import Struct
from agent.host.root import Root

_SHOWN = 8  # candidates of an ambiguous name that are listed


class SearchFailure(Struct):
    """No device, and why; `suggestions` are names to try. `there`: what is there in place of one."""

    reason: str
    suggestions: tuple[str, ...] = ()
    path_hint: PathHint | None = None


def find_device(inventory: HostReport, name: str) -> HostReportItem | SearchFailure:
    """The one device that a name means: a path, an address, the kernel's name, an id, or how one of these begins."""
    for way in (_by_path, _by_address, _by_name, _by_serial):
        candidates = way(inventory, name)
        if candidates:
            return candidates[0]
    if name.startswith("/"):
        return _no_device(inventory, name)
    begun = [item for item in inventory.items if any(known.startswith(name) for known in _names(item))]
    if len({item.host.key for item in begun}) == 1:
        return begun[0]
    if begun:
        more = f" and {len(begun) - _SHOWN} more" if len(begun) > _SHOWN else ""
        return SearchFailure(f"{len(begun)} devices begin so{more}", tuple(item.host.name for item in begun[:_SHOWN]))
    near = find_nearest(name, (known for item in inventory.items for known in _names(item)))
    return SearchFailure("no such device", (near,) if near else ())


def find_unlisted_source(root: Root, name: str) -> Source | None:
    """The subsystem of a device that no listed source sees, by its path below /sys or its name in a class or bus."""
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


def _by_path(inventory: HostReport, name: str) -> Sequence[HostReportItem]:
    if not name.startswith("/"):
        return ()
    real = inventory.root.resolve(name)
    if isinstance(real, Absent):
        return _ranked(item for item in inventory.items if item.host.name == name)
    itself = [item for item in inventory.items if real in {item.host.directory, item.host.real}]
    return _ranked([*itself, *(item for item in inventory.items if item.host.node == real)])


def _by_address(inventory: HostReport, name: str) -> Sequence[HostReportItem]:
    """By a PCI address in any form; one without a function means the only one of its slot."""
    try:
        wanted = parse_operand(ValueType.PCI, name)
    except OperandError:
        return ()
    found = [
        item for item in inventory.items if item.label == "pci" and is_equal(ValueType.PCI, item.host.name, wanted)
    ]
    return found if len(found) == 1 else ()


def _by_name(inventory: HostReport, name: str) -> Sequence[HostReportItem]:
    (base, _), share = split_share(name)
    named = _ranked(item for item in inventory.items if name in _names(item))
    return named or _ranked(item for item in inventory.items if share is not None and base in _names(item))


def _by_serial(inventory: HostReport, name: str) -> Sequence[HostReportItem]:
    """By the serial number of the USB device that it is or hangs on, of which there is no other."""
    found = [item for item in inventory.items if inventory.read_fact(item, "usb.serial") == name]
    ports = {str(inventory.read_fact(item, "usb.port")) for item in found}
    return _ranked(found) if len(ports) == 1 else ()


def _ranked(items: Iterable[HostReportItem]) -> Sequence[HostReportItem]:
    """One thing may be seen by several sources: what is taken goes first, then what an entry turned down."""
    return sorted(items, key=lambda item: (item.entry is None, not item.mismatches))


def _names(item: HostReportItem) -> Iterable[str]:
    """What a device is called, besides its paths and addresses."""
    host = item.host
    names = {host.name, host.name.removeprefix("/dev/"), host.place}
    if item.device is not None:
        names.add(item.device.id)
    if host.source == "pci" and host.name.startswith("0000:"):
        names.add(host.name.removeprefix("0000:"))
    return names


def _no_device(inventory: HostReport, path: str) -> SearchFailure:
    """Why what is at a path, if anything, is no device."""
    for oddities in inventory.skipped_paths.values():
        for oddity in oddities:
            if oddity.path == path:
                return SearchFailure(oddity.reason, path_hint=PathHint(oddity.reason))
    there = find_path_hint(inventory, path)
    if there is not None:
        return SearchFailure(there.text, path_hint=there)
    real = inventory.root.find_node(path) if path.startswith("/dev/") else inventory.root.resolve(path)
    reason = real.reason if isinstance(real, Absent) else "is no device"
    near = find_nearest(path, (item.host.name for item in inventory.items))
    return SearchFailure(reason, (near,) if near else ())
