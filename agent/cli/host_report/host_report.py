"""Host report: every host device of a new look, its entry, and its mismatches."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property

from agent.core.entry.check_results import DeviceCheckResult
from agent.core.entry.resource_spec import ResourceSpec, Source
from agent.core.inventory.device import Device, HostDevice
from agent.core.inventory.facts import Facts
from agent.core.inventory.listing import SkippedPath
from agent.core.inventory.matching import Mismatch
from agent.core.language.value import Absent, Value
from agent.core.lists.id_assignment import UnlistedCandidate
from agent.core.lists.list_findings import WithheldTopology
from agent.core.struct import Struct
from agent.host.root import Root
from agent.scanners.host_reader import HostReader, HostView

_HARDWARE_WORDS = {"usb": "usb.name", "pci": "pci.address"}  # the word that leads to the hardware, by source
_NO_HARDWARE = ("", "")


class EntryMismatch:
    """The first clause of an entry that excludes a device."""

    def __init__(self, mismatch: Mismatch, check_only: Callable[[Mismatch], bool]) -> None:
        self.mismatch = mismatch
        self._check_only = check_only

    @cached_property
    def is_only_mismatch(self) -> bool:
        """Return whether no other clause of the entry excludes the device. The value is computed only on demand."""
        return self._check_only(self.mismatch)


class HostReportItem(Struct):
    """One host device.

    entry: the entry that takes the device.
    device: the listed device, if the entry offers one.
    mismatches: one for each entry that excludes the device.
    resource: the resource of the device, also while the device is not listed.
    check_results: the result of each check of the entry.
    matching_classes: names of device classes that match a device without entry.
    other_members: names of the other members of its group.
    unlisted_reason: the reason why the device is not listed.
    """

    source: Source
    host: HostDevice
    entry: ResourceSpec | None = None
    device: Device | None = None
    mismatches: tuple[EntryMismatch, ...] = ()
    matching_classes: tuple[str, ...] = ()
    other_members: tuple[str, ...] = ()
    unlisted_reason: str = ""
    resource: str = ""
    check_results: tuple[DeviceCheckResult, ...] = ()

    @property
    def label(self) -> str:
        """The source, as shown before the name: `pci`, `dev`, or the subsystem."""
        return {"node": "dev", "subsystem": self.source.arguments[0] if self.source.arguments else ""}.get(
            self.source.kind, self.source.kind
        )


class HostReport:
    """All host devices. The order is that of the sources: sources of the entries, PCI, USB, net, device nodes.

    skipped_paths: paths that matched a source and are no device, by source.
    totals: number of host devices, by source.
    unlisted: candidates that are not in a device list, with the reason.
    specs: the entries in file order.
    get_facts: returns the facts of a host device for an entry.
    missing_devices: entries with fewer devices than they expect, with the number of devices.
    hosts_by_source: host devices of each source, by device key. Several sources may show one device.
    lists: the listed devices, by resource.
    withheld_topology: resources whose NUMA nodes are not sent, although some devices have one.
    """

    def __init__(
        self,
        root: Root,
        items: tuple[HostReportItem, ...],
        *,
        skipped_paths: Mapping[Source, Sequence[SkippedPath]],
        totals: Mapping[Source, int],
        hosts_by_source: Mapping[Source, Mapping[str, HostDevice]],
        unlisted: Sequence[UnlistedCandidate],
        specs: Sequence[ResourceSpec],
        get_facts: Callable[[ResourceSpec, HostDevice], Facts],
        missing_devices: Mapping[str, str],
        lists: Mapping[str, Sequence[Device]],
        withheld_topology: Mapping[str, WithheldTopology],
    ) -> None:
        self.items = items
        self.skipped_paths = skipped_paths
        self.totals = totals
        self.hosts_by_source = hosts_by_source
        self.unlisted = unlisted
        self.missing_devices = missing_devices
        self.lists = lists
        self.withheld_topology = withheld_topology
        self.root = root
        self.specs = tuple(specs)
        self.get_facts = get_facts
        self._reader = HostReader(HostView(root))

    @cached_property
    def mismatches_by_clause(self) -> Mapping[str, Mapping[str, Sequence[tuple[HostReportItem, EntryMismatch]]]]:
        """The mismatches, by resource and by address of the clause."""
        mismatches_by_resource: dict[str, dict[str, list[tuple[HostReportItem, EntryMismatch]]]] = {}
        for item in self.items:
            for entry_mismatch in item.mismatches:
                mismatches = mismatches_by_resource.setdefault(entry_mismatch.mismatch.resource, {})
                mismatches.setdefault(entry_mismatch.mismatch.address, []).append((item, entry_mismatch))
        return mismatches_by_resource

    def find_same_hardware(self, item: HostReportItem) -> Sequence[HostReportItem]:
        """Return the devices with an entry that are the same hardware in another source.

        One of them is a PCI function or a USB device. The other is its network interface, RDMA device or terminal.
        """
        items = self._items_by_hardware.get(self._find_hardware(item), ())
        return [other for other in items if (other.label in _HARDWARE_WORDS) != (item.label in _HARDWARE_WORDS)]

    @cached_property
    def _items_by_hardware(self) -> Mapping[tuple[str, str], Sequence[HostReportItem]]:
        """The devices with an entry, by their PCI function or USB device."""
        items_by_hardware: dict[tuple[str, str], list[HostReportItem]] = {}
        for item in self.items:
            if item.entry is not None and (hardware := self._find_hardware(item)) != _NO_HARDWARE:
                items_by_hardware.setdefault(hardware, []).append(item)
        return items_by_hardware

    def _find_hardware(self, item: HostReportItem) -> tuple[str, str]:
        """Return the USB device of an item. If there is none, return its PCI function."""
        for kind, word in _HARDWARE_WORDS.items():
            if item.label == kind:
                return kind, item.host.name
            if not isinstance(name := self.read_fact(item, word), Absent):
                return kind, str(name)
        return _NO_HARDWARE

    def read_fact(self, item: HostReportItem, word: str) -> Value | Absent:
        """Return the value of a word of an item."""
        return self._reader.read_fact(item.host, word)

    def find_listed_devices(self, spec: ResourceSpec) -> tuple[Device, ...]:
        """Return the listed devices of an entry, each once. For an entry with slots, return all devices of its
        resource.
        """
        items = [item for item in self.items if item.entry is spec]
        if spec.slots is None:
            return tuple(dict.fromkeys(item.device for item in items if item.device))
        names = dict.fromkeys((spec.name, *(item.resource for item in items)))
        return tuple(device for name in names for device in self.lists.get(name, ()))

    def find_resource_names(self, spec: ResourceSpec) -> tuple[str, ...]:
        """Return the names of the resources that list devices of an entry."""
        return tuple(dict.fromkeys(item.resource for item in self.items if item.entry is spec and item.resource))

    def count_items(self, label: str) -> int:
        """Return the number of items with a label. Interfaces of USB devices do not count, because they are parts of
        the devices.
        """
        return sum(item.label == label and not (label == "usb" and ":" in item.host.name) for item in self.items)
