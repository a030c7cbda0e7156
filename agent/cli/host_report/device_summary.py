"""Short description of a host device, for the column WHAT and the first line about a device."""

from __future__ import annotations

from agent.cli.host_report.host_report import HostReport, HostReportItem
from agent.cli.host_report.pci_names import PciNames
from agent.core.inventory.device import DeviceNode
from agent.core.language.safe_text import make_printable
from agent.core.language.value import Absent, Value, format_scalar
from agent.core.struct import Struct


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
