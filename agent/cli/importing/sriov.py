"""sriov-network-device-plugin: its JSON, or the ConfigMap that carries it.

Selectors are exact there: ids of four lower-case digits, full PCI addresses; others matched nothing. Several selector
objects of one resource are alternatives.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from agent.cli.importing.entry import Entry, Value
from agent.cli.importing.their import Item, NotTheirs, read

PREFIX = "intel.com"
_KEYS = ("resourceName", "resourcePrefix", "deviceType", "selectors", "excludeTopology", "additionalInfo")
_SELECTORS = (
    *("vendors", "devices", "drivers", "pciAddresses", "pfNames", "rootDevices", "linkTypes", "acpiIndexes", "pKeys"),
    *("isRdma", "needVhostNet"),
)
_USERSPACE = frozenset({"vfio-pci", "uio_pci_generic", "igb_uio"})
_RANGED = re.compile(r"(?P<of>[^#]+)(?:#(?P<numbers>[0-9,-]+))?")


def entries(text: str) -> list[Entry]:
    """What the file says, as entries of ours.

    Raises:
        NotTheirs: no `resourceList` is in it.
    """
    found = [_entry(item) for item in _resources(read(text))]
    if not found:
        raise NotTheirs("no resourceList of sriov-network-device-plugin in it")
    return found


def _resources(documents: Sequence[Item]) -> Iterator[Item]:
    for document in documents:
        for item in document.walk():
            if item.get("resourceList") is not None:
                yield from item.items("resourceList")
            elif '"resourceList"' in item.text:  # a file within a ConfigMap
                yield from _resources(read(item.text, item.line + 1))


def _entry(item: Item) -> Entry:
    name = item.said("resourceName")
    entry = Entry(name or "a resource without name", item.line)
    if not name:
        entry.checks.append("a resource has a resourceName")
        return entry
    for key in item.others(*_KEYS):
        entry.checks.append(f"{key} is not taken over")
    if item.get("additionalInfo") is not None:
        entry.checks.append("additionalInfo is not taken over: say it in give.env.info.json")
    kind = item.said("deviceType", "netDevice")
    if kind.lower() != "netdevice":
        entry.checks.append(f"deviceType {kind} is not taken over: write the entry by hand")
        return entry
    for selector in item.items("selectors") or (Item(item.line),):
        for table in _tables(entry, selector):
            if item.true("excludeTopology"):
                table["topology"] = "none"
            first = not entry.tables
            resource = f"{item.said('resourcePrefix', PREFIX)}/{name}"
            entry.tables.append({("name" if first else "adds_to"): resource, **table})
    if entry.tables:
        entry.changes.append("virtual functions only; for one without PF, which was taken too: match.is_vf = false")
    return entry


def _tables(entry: Entry, selector: Item) -> Iterator[dict[str, Value]]:
    """One entry for each way in which the functions are handed out."""
    for key in selector.others(*_SELECTORS):
        entry.checks.append(f"selector {key} is not taken over, so more functions fit")
    match = _match(entry, selector)
    if match is None:
        return
    drivers = selector.texts("drivers")
    classes = {"sriov-dpdk" if driver in _USERSPACE else "sriov-netdev" for driver in drivers}
    for name in sorted(classes) or ("sriov-netdev", "sriov-dpdk"):
        own = [driver for driver in drivers if (driver in _USERSPACE) == (name == "sriov-dpdk")]
        table: dict[str, Value] = {"class": name}
        if selector.true("needVhostNet"):
            table["options"] = {"vhost_net": True}
        clauses = {**match, **({"driver": _one(own)} if own else {})}
        if clauses:
            table["match"] = clauses
        if selector.true("isRdma"):
            table["give"] = {"rdma": {"required": ["uverbs", "rdma_cm"], "optional": ["umad", "issm"]}}
        yield table


def _match(entry: Entry, selector: Item) -> dict[str, Value] | None:
    """The clauses of a selector; none if nothing fitted it."""
    match: dict[str, Value] = {}
    for key, word in (("vendors", "vendor"), ("devices", "device")):
        ids = [_hex(entry, key, text) for text in selector.texts(key)]
        if ids:
            match[word] = _one(ids)
    if addresses := selector.texts("pciAddresses"):
        match["address"] = _one(addresses)
    if links := selector.texts("linkTypes"):
        match["netdev.link"] = _one(links)
    if indexes := selector.texts("acpiIndexes"):
        match["acpi_index"] = _one([int(index) if index.isdecimal() else index for index in indexes])
    if keys := selector.texts("pKeys"):
        match["rdma.ports"] = {"any": {"pkey": _one(keys)}}
    elif selector.true("isRdma"):
        match["rdma"] = {"exists": True}
    choices = [
        *_functions(entry, selector, "pfNames", "pf.netdev.name"),
        *_functions(entry, selector, "rootDevices", "pf.address"),
    ]
    if not choices and (selector.texts("pfNames") or selector.texts("rootDevices")):
        return None
    if len(choices) == 1:
        match.update(choices[0])
    elif choices:
        match["either"] = {f"pf{index}": choice for index, choice in enumerate(choices)}
    return match


def _functions(entry: Entry, selector: Item, key: str, word: str) -> Iterator[dict[str, Value]]:
    """The PFs that a selector names, those without numbers together."""
    whole: list[Value] = []
    for text in selector.texts(key):
        found = _RANGED.fullmatch(text)
        if found is None:
            entry.checks.append(f"{key} {text}: is no NAME or NAME#0-3,5, and matched nothing")
        elif found["numbers"]:
            yield {word: found["of"], "vf_index": {"in": found["numbers"]}}
        else:
            whole.append(found["of"])
    if whole:
        yield {word: _one(whole)}


def _hex(entry: Entry, key: str, text: str) -> str:
    plain = text.lower().removeprefix("0x")
    if plain != text:
        entry.changes.append(f"{key} {text} matched nothing, it wanted {plain}; here it matches")
    return plain


def _one(values: Sequence[Value]) -> Value:
    return values[0] if len(values) == 1 else list(values)
