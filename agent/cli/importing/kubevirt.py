"""Import of KubeVirt: `permittedHostDevices` of a KubeVirt resource.

After the import, KubeVirt must leave these resources to this agent. Each needs `externalResourceProvider: true`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from agent.cli.importing.foreign_file import ForeignValue
from agent.cli.importing.toml_entry import ImportedEntry, TomlValue

_EXTERNAL = "set externalResourceProvider: true on it in KubeVirt, or both register the name"


NOT_FOUND = "no permittedHostDevices of KubeVirt in it"


def import_entries(documents: Sequence[ForeignValue]) -> list[ImportedEntry]:
    """Return the content of the file as entries. The list is empty if the file is of another program."""
    return [entry for devices in _find_devices(documents) for entry in _import_devices(devices)]


def _find_devices(documents: Sequence[ForeignValue]) -> Iterator[ForeignValue]:
    for document in documents:
        for item in document.walk():
            permitted = item.get("permittedHostDevices")
            if permitted is not None:
                yield permitted
    for document in documents:
        if any(document.get(key) for key in ("pciHostDevices", "mediatedDevices")):
            yield document


def _import_devices(devices: ForeignValue) -> Iterator[ImportedEntry]:
    names: dict[str, ImportedEntry] = {}
    builders = {"pciHostDevices": _build_pci_table, "mediatedDevices": _build_mdev_table, "usb": _build_usb_table}
    for key in devices.find_other_keys(*builders):
        entry = ImportedEntry(key, devices.table[key].line, checks=[f"{key} is not taken over"])
        yield entry
    for key, build_table in builders.items():
        for item in devices.get_items(key):
            name = item.get_text("resourceName")
            earlier_entry = names.get(name)
            entry = earlier_entry or ImportedEntry(name or f"a device of {key} without resourceName", item.line)
            table = build_table(entry, item) if name else None
            if table is not None:
                entry.tables.append({("adds_to" if earlier_entry else "name"): name, **table})
            elif not name:
                entry.checks.append("it has no resourceName")
            if earlier_entry is None:
                names[name] = entry
                if not item.is_true("externalResourceProvider"):
                    entry.checks.append(_EXTERNAL)
                yield entry


def _build_pci_table(entry: ImportedEntry, item: ForeignValue) -> dict[str, TomlValue] | None:
    vendor, mark, device = item.get_text("pciVendorSelector").partition(":")
    if not mark:
        entry.checks.append("pciVendorSelector is VENDOR:DEVICE")
        return None
    entry.changes.append("an IOMMU group goes as one device (each function by itself: group = false)")
    match: dict[str, TomlValue] = {"vendor": vendor.lower(), "device": device.lower()}
    return {"class": "vfio-pci", "match": match}


def _build_mdev_table(entry: ImportedEntry, item: ForeignValue) -> dict[str, TomlValue] | None:
    selector = item.get_text("mdevNameSelector")
    if not selector:
        entry.checks.append("mdevNameSelector is missing")
        return None
    return {"class": "mdev", "match": {"type": selector.replace(" ", "_")}}


def _build_usb_table(entry: ImportedEntry, item: ForeignValue) -> dict[str, TomlValue] | None:
    selectors = item.get_items("selectors")
    clauses: list[dict[str, TomlValue]] = [
        {key: selector.get_text(key).lower() for key in ("vendor", "product") if selector.get_text(key)}
        for selector in selectors
    ]
    if not clauses or not all(clauses):
        entry.checks.append("selectors are vendor and product")
        return None
    if len(clauses) == 1:
        return {"class": "usb-device", "match": clauses[0]}
    parts = {f"part{index}": clause for index, clause in enumerate(clauses)}
    entry.checks.append("several USB devices are one; if there can be two of a kind: group.by")
    return {"class": "usb-device", "group": {"parts": parts}}
