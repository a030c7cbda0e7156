"""Import of sriov-network-device-plugin: its JSON, or the ConfigMap with the JSON.

Its selectors are exact: IDs have four lower-case digits, PCI addresses are complete. Other values matched nothing.
Several selector objects of one resource are alternatives.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from agent.cli.importing.foreign_file import ForeignValue, parse_documents
from agent.cli.importing.toml_entry import ImportedEntry, TomlValue

PREFIX = "intel.com"
_KEYS = ("resourceName", "resourcePrefix", "deviceType", "selectors", "excludeTopology", "additionalInfo")
_SELECTORS = (
    *("vendors", "devices", "drivers", "pciAddresses", "pfNames", "rootDevices", "linkTypes", "acpiIndexes", "pKeys"),
    *("isRdma", "needVhostNet", "isVdpa", "vdpaType", "auxTypes"),
)
_USERSPACE = frozenset({"vfio-pci", "uio_pci_generic", "igb_uio"})
_FUNCTION_PATTERN = re.compile(r"(?P<name>[^#]+)(?:#(?P<numbers>[0-9,-]+))?")


class _TypeWords(NamedTuple):
    """The class of a device type, and the prefixes and words for its selectors.

    function_prefix: before words of the PCI function.
    driver_word: the word for the driver.
    child_prefix: before words of the devices below the PCI function.
    parent_prefix: before words of the PF.
    index_word: the word for the number of the device at its PF.
    """

    kind: str
    class_name: str
    function_prefix: str
    driver_word: str
    child_prefix: str
    parent_prefix: str
    index_word: str


NETDEVICE = _TypeWords("netDevice", "", "", "driver", "", "pf.", "vf_index")
ACCELERATOR = _TypeWords("accelerator", "", "", "driver", "", "pf.", "vf_index")
AUXILIARY = _TypeWords("auxNetDevice", "scalable-function", "pci.", "driver", "", "pci.", "sfnum")
VDPA = _TypeWords("vdpa", "", "pci.", "pci.driver", "pci.", "pci.pf.", "pci.vf_index")
_KINDS = {kind.kind.lower(): kind for kind in (NETDEVICE, ACCELERATOR, AUXILIARY)}


NOT_FOUND = "no resourceList of sriov-network-device-plugin in it"


def import_entries(documents: Sequence[ForeignValue]) -> list[ImportedEntry]:
    """Return the content of the file as entries. The list is empty if the file is of another program."""
    return [_import_entry(item) for item in _find_resources(documents)]


def _find_resources(documents: Sequence[ForeignValue]) -> Iterator[ForeignValue]:
    for document in documents:
        for item in document.walk():
            if item.get("resourceList") is not None:
                yield from item.get_items("resourceList")
            elif '"resourceList"' in item.text:  # a file within a ConfigMap
                yield from _find_resources(parse_documents(item.text, item.line + 1))


def _import_entry(item: ForeignValue) -> ImportedEntry:
    name = item.get_text("resourceName")
    entry = ImportedEntry(name or "a resource without name", item.line)
    if not name:
        entry.checks.append("a resource has a resourceName")
        return entry
    for key in item.find_other_keys(*_KEYS):
        entry.checks.append(f"{key} is not taken over")
    type_name = item.get_text("deviceType", "netDevice")
    if (kind := _KINDS.get(type_name.lower())) is None:
        entry.checks.append(f"there is no deviceType {type_name}: it is one of netDevice, accelerator, auxNetDevice")
        return entry
    extra_env = _build_extra_env(entry, item)
    for selector in item.get_items("selectors") or (ForeignValue(item.line),):
        for table in _build_tables(entry, selector, kind):
            if item.is_true("excludeTopology"):
                table["topology"] = "none"
            if extra_env:
                give = table.get("give")
                table["give"] = {**(give if isinstance(give, dict) else {}), "env": extra_env}
            is_first = not entry.tables
            resource = f"{item.get_text('resourcePrefix', PREFIX)}/{name}"
            entry.tables.append({("name" if is_first else "adds_to"): resource, **table})
    if any(str(table.get("class")).startswith("sriov-") for table in entry.tables):
        entry.changes.append("virtual functions only; for one without PF, which was taken too: match.is_vf = false")
    return entry


def _build_extra_env(entry: ImportedEntry, item: ForeignValue) -> dict[str, TomlValue]:
    """Return the environment variables that contain the additional information about all devices."""
    info = item.get("additionalInfo")
    if info is None:
        return {}
    if set(info.table) - {"*"}:
        entry.checks.append("additionalInfo of single devices is not taken over, only that of all (*)")
    common_info = info.get("*")
    extra: TomlValue = {key: value.text for key, value in common_info.table.items()} if common_info else {}
    return {name: {"json": {"extra_info": extra}} for name in ("info", "posix_info")} if extra else {}


def _build_tables(entry: ImportedEntry, selector: ForeignValue, kind: _TypeWords) -> Iterator[dict[str, TomlValue]]:
    """Yield one entry for each class that serves the devices of a selector."""
    vdpa = selector.is_true("isVdpa") or bool(selector.get_text("vdpaType"))
    if vdpa and kind is NETDEVICE:
        kind = VDPA
    if profiles := selector.get_texts("ddpProfiles"):
        entry.checks += _explain_ddp(profiles)
    for key in selector.find_other_keys(*_SELECTORS, "ddpProfiles"):
        entry.checks.append(f"selector {key} is not taken over, so more devices fit")
    if set(types := selector.get_texts("auxTypes")) - {"sf"}:
        entry.checks.append(f"auxTypes {', '.join(types)}: of the auxiliary bus only subfunctions (sf) have a class")
    match = _build_match(entry, selector, kind)
    if match is None:
        return
    drivers = selector.get_texts("drivers")
    for name, class_drivers in _list_classes(drivers, selector, kind):
        table: dict[str, TomlValue] = {"class": name} if name else {"uses": ["pcidevice-env"], "source": "pci"}
        if selector.is_true("needVhostNet") and kind is NETDEVICE:
            table["options"] = {"vhost_net": True}
        clauses = {**match, **({kind.driver_word: _unwrap_single(class_drivers)} if class_drivers else {})}
        if clauses:
            table["match"] = clauses
        if not name:
            uio: TomlValue = {"path": "{uio}", "when": {"uio": {"exists": True}}}
            table["give"] = {"vfio": {"when": {"on_vfio": True}}, "nodes": {"uio": uio}}
        elif selector.is_true("isRdma"):
            table["give"] = {"rdma": {"required": ["uverbs", "rdma_cm"], "optional": ["umad", "issm"]}}
        yield table


def _list_classes(
    drivers: Sequence[str], selector: ForeignValue, kind: _TypeWords
) -> Iterator[tuple[str, Sequence[str]]]:
    """Yield the classes for devices with these drivers, each with its drivers. An empty name means no class."""
    if kind is not NETDEVICE:
        types = [selector.get_text("vdpaType")] if selector.get_text("vdpaType") else ["vhost", "virtio"]
        names = [f"vdpa-{vdpa_type}" for vdpa_type in types] if kind is VDPA else [kind.class_name]
        yield from ((name, drivers) for name in names)
        return
    classes = {"sriov-dpdk" if driver in _USERSPACE else "sriov-netdev" for driver in drivers}
    for name in sorted(classes) or ("sriov-netdev", "sriov-dpdk"):
        yield name, [driver for driver in drivers if (driver in _USERSPACE) == (name == "sriov-dpdk")]


def _build_match(entry: ImportedEntry, selector: ForeignValue, kind: _TypeWords) -> dict[str, TomlValue] | None:
    """Return the `match` clause of a selector, or None if the selector matched nothing."""
    match: dict[str, TomlValue] = {"class": "12"} if kind is ACCELERATOR else {}
    prefix = kind.function_prefix
    for key, word in (("vendors", f"{prefix}vendor"), ("devices", f"{prefix}device")):
        ids = [_normalize_id(entry, key, text) for text in selector.get_texts(key)]
        if ids:
            match[word] = _unwrap_single(ids)
    if addresses := selector.get_texts("pciAddresses"):
        match[f"{prefix}address"] = _unwrap_single(addresses)
    if links := selector.get_texts("linkTypes"):
        match[f"{kind.child_prefix}netdev.link"] = _unwrap_single(links)
    if indexes := selector.get_texts("acpiIndexes"):
        match[f"{prefix}acpi_index"] = _unwrap_single([int(index) if index.isdecimal() else index for index in indexes])
    if keys := selector.get_texts("pKeys"):
        match[f"{kind.child_prefix}rdma.ports"] = {"any": {"pkey": _unwrap_single(keys)}}
    elif selector.is_true("isRdma"):
        match[f"{kind.child_prefix}rdma"] = {"exists": True}
    choices = [
        *_build_function_clauses(entry, selector, "pfNames", f"{kind.parent_prefix}netdev.name", kind.index_word),
        *_build_function_clauses(entry, selector, "rootDevices", f"{kind.parent_prefix}address", kind.index_word),
    ]
    if not choices and (selector.get_texts("pfNames") or selector.get_texts("rootDevices")):
        return None
    if len(choices) == 1:
        match.update(choices[0])
    elif choices:
        match["either"] = {f"pf{index}": choice for index, choice in enumerate(choices)}
    return match


def _build_function_clauses(
    entry: ImportedEntry, selector: ForeignValue, key: str, word: str, index: str
) -> Iterator[dict[str, TomlValue]]:
    """Yield clauses for the PFs in a selector. PFs without numbers are one clause. index: the word for the number."""
    names: list[TomlValue] = []
    for text in selector.get_texts(key):
        function_match = _FUNCTION_PATTERN.fullmatch(text)
        if function_match is None:
            entry.checks.append(f"{key} {text}: is no NAME or NAME#0-3,5, and matched nothing")
        elif function_match["numbers"]:
            yield {word: function_match["name"], index: {"in": function_match["numbers"]}}
        else:
            names.append(function_match["name"])
    if names:
        yield {word: _unwrap_single(names)}


def _explain_ddp(profiles: Sequence[str]) -> tuple[str, str]:
    """Return texts about a selector that no kernel file can decide: the consequence and the next step."""
    reason = "so more devices fit: no file says what a card runs (devlink dev info does: fw.app.name)"
    probe_text = f'let.ddp = {{ probe = "ddp", field = "profile" }}, match.ddp = {json.dumps(_unwrap_single(profiles))}'
    return (
        f"ddpProfiles {', '.join(profiles)} is not taken over, {reason}",
        f'where not all cards run that: match.pf.address = "…" names those that do; or a probe says it: {probe_text}',
    )


def _normalize_id(entry: ImportedEntry, key: str, text: str) -> str:
    plain = text.lower().removeprefix("0x")
    if plain != text:
        entry.changes.append(f"{key} {text} matched nothing, it wanted {plain}; here it matches")
    return plain


def _unwrap_single(values: Sequence[TomlValue]) -> TomlValue:
    return values[0] if len(values) == 1 else list(values)
