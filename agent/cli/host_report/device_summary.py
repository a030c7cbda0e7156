"""Short description of a host device, for the column WHAT and the first line about a device."""

from __future__ import annotations

from agent.cli.host_report.host_report import HostReport, HostReportItem
from agent.core.inventory.device import DeviceNode
from agent.core.language.safe_text import make_printable
from agent.core.language.value import Absent, Value, format_scalar
from agent.core.struct import Struct
from agent.host.root import Root


class DeviceSummary(Struct):
    """text: describes this device. group_text: describes all devices that differ only in their number."""

    text: str
    group_text: str


def summarize_device(report: HostReport, item: HostReportItem, names: PciNames) -> DeviceSummary:
    """Return the description of a host device."""

    def format_word(word: str) -> str:
        return format_value(report.read_fact(item, word))

    if item.label == "dev":
        node = report.root.find_node(item.host.node)
        if isinstance(node, Absent):
            return DeviceSummary("", "")
        return DeviceSummary(f"{format_node_number(node)}", f"{format_node_type(node)} {node.major}:*")
    if item.label == "pci":
        name = names.find_name(format_word("vendor"), format_word("device"), format_word("class"))
        ids = f"{name} [{format_word('vendor')}:{format_word('device')}]"
        index = format_word("vf_index")
        text = " ".join(part for part in (ids, f"vf {index}" if index else "", format_word("netdev.name")) if part)
        return DeviceSummary(text, f"{ids} vf" if index else ids)
    if item.label == "usb":
        name = " ".join(part for part in (format_word("usb.maker"), format_word("usb.model")) if part) or "USB device"
        ids = f"{name} [{format_word('usb.vendor')}:{format_word('usb.product')}]"
        return DeviceSummary(f"{ids} {format_word('usb.serial')}".rstrip(), ids)
    if item.label == "net":
        parent = format_word("pci.address") or format_word("usb.port") or "virtual"
        return DeviceSummary(
            f"{parent} {format_word('./operstate')}".rstrip(), f"{parent} {format_word('./operstate')}".rstrip()
        )
    node_path = format_word("node") or format_word("path_id")
    return DeviceSummary(node_path, node_path)


def format_value(value: Value | Absent) -> str:
    """Return a value for people. The text is empty if the value is absent."""
    if isinstance(value, Absent):
        return ""
    if isinstance(value, tuple):
        return ", ".join(make_printable(format_scalar(element)) for element in value)
    return make_printable(format_scalar(value))


def format_node_type(node: DeviceNode) -> str:
    """Return `char` or `block`."""
    return "char" if node.type == "c" else "block"


def format_node_number(node: DeviceNode) -> str:
    """Return the type and the numbers of a device node, like `char 10:229`."""
    return f"{format_node_type(node)} {node.major}:{node.minor}"


PCI_IDS_PATHS = ("/usr/share/misc/pci.ids", "/usr/share/hwdata/pci.ids", "/usr/share/pci.ids")

# PCI Code and ID Assignment Specification, base classes; the first two digits of `class`.
_FUNCTION_KINDS = {
    "01": "storage", "02": "network", "03": "display", "04": "multimedia", "05": "memory", "06": "bridge",
    "07": "communication", "08": "system", "09": "input", "0b": "processor", "0c": "serial bus", "0d": "wireless",
    "0f": "satellite", "10": "encryption", "11": "signal processing", "12": "accelerator",
}  # fmt: skip


class PciNames:
    """Names of PCI hardware. The first call reads the file."""

    def __init__(self, root: Root) -> None:
        self._root = root
        self._names: dict[tuple[str, str], str] | None = None

    def find_name(self, vendor: str, device: str, class_: str) -> str:
        """Return the printable name of a model, or the kind of function if the model is not in the file."""
        if self._names is None:
            self._names = self._read()
        name = self._names.get((vendor, device))
        return make_printable(name) if name else _FUNCTION_KINDS.get(class_[:2], "PCI function")

    def _read(self) -> dict[tuple[str, str], str]:
        for path in PCI_IDS_PATHS:
            data = self._root.read_head(path, 8 << 20)
            if not isinstance(data, Absent):
                return parse_pci_ids(data.decode("utf-8", "replace"))
        return {}


def parse_pci_ids(text: str) -> dict[tuple[str, str], str]:
    """Return the names in the text of a pci.ids file, by vendor and device."""
    names: dict[tuple[str, str], str] = {}
    vendor = ""
    for line in text.splitlines():
        if line.startswith("C "):
            break  # the rest of the file contains classes
        if line.startswith("\t") and not line.startswith("\t\t"):
            device, _, name = line[1:].partition("  ")
            names[vendor, device] = name
        elif line and not line.startswith(("#", "\t")):
            vendor = line.partition("  ")[0]
    return names
