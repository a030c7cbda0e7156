"""The inventory: every host device that a fresh look has seen, who takes it and who does not, and why."""

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
from agent.core.lists.numa_topology import WithheldTopology
from agent.core.struct import Struct
from agent.host.root import Root
from agent.scanners.host_reader import HostReader

_HARDWARE_WORDS = {"usb": "usb.name", "pci": "pci.address"}  # by which word the devices on each say which it is
_NO_HARDWARE = ("", "")


class EntryMismatch:
    """An entry that does not take a device: its first clause against it."""

    def __init__(self, mismatch: Mismatch, check_only: Callable[[Mismatch], bool]) -> None:
        self.mismatch = mismatch
        self._check_only = check_only

    @cached_property
    def is_only_mismatch(self) -> bool:
        """Whether that clause is the only one; asked of a few, out of all entries times all devices."""
        return self._check_only(self.mismatch)


class HostReportItem(Struct):
    """One host device. `device` is what the entry `taken_by` offers of it, if it does.

    resource: the name under which it is offered, or would be. checks: what each check of the entry says of it.
    fits: device classes that would take it, by name; only of what no entry takes.
    others: the host devices that are one device with it, by name. waits: why that device is not listed.
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
        """The source as it stands before the name: `pci`, `dev`, or the subsystem."""
        return {"node": "dev", "subsystem": self.source.arguments[0] if self.source.arguments else ""}.get(
            self.source.kind, self.source.kind
        )


class HostReport:
    """Everything seen, in order: as the entries name their sources, then PCI, USB, net, the nodes below /dev.

    oddities: what a configured source came across and did not take for a device.
    totals: how many host devices a source shows. unlisted: what is taken and not in its resource's list, and why.
    specs: the entries that judged them, in file order. facts: what one of them knows of a host device.
    missing: which entries have fewer devices than they expect, and how many there are.
    found: what each source shows, by key; several may show one.
    lists: what each resource has listed, by its name. silences: of which no NUMA node is told, though some have one.
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
        self._reader = HostReader(root)

    @cached_property
    def mismatches_by_clause(self) -> Mapping[str, Mapping[str, Sequence[tuple[HostReportItem, EntryMismatch]]]]:
        """What each resource's entries turned down, by its name and by the address of the clause."""
        mismatches_by_resource: dict[str, dict[str, list[tuple[HostReportItem, EntryMismatch]]]] = {}
        for item in self.items:
            for entry_mismatch in item.mismatches:
                mismatches = mismatches_by_resource.setdefault(entry_mismatch.mismatch.resource, {})
                mismatches.setdefault(entry_mismatch.mismatch.address, []).append((item, entry_mismatch))
        return mismatches_by_resource

    def find_same_hardware(self, item: HostReportItem) -> Sequence[HostReportItem]:
        """What is taken and is the same thing, seen from another source: a PCI function or a USB device, and what it
        carries itself (a network interface, an RDMA device, a terminal).
        """
        items = self._items_by_hardware.get(self._find_hardware(item), ())
        return [other for other in items if (other.label in _HARDWARE_WORDS) != (item.label in _HARDWARE_WORDS)]

    @cached_property
    def _items_by_hardware(self) -> Mapping[tuple[str, str], Sequence[HostReportItem]]:
        """What is taken, by the PCI function or the USB device that it is of."""
        items_by_hardware: dict[tuple[str, str], list[HostReportItem]] = {}
        for item in self.items:
            if item.entry is not None and (hardware := self._find_hardware(item)) != _NO_HARDWARE:
                items_by_hardware.setdefault(hardware, []).append(item)
        return items_by_hardware

    def _find_hardware(self, item: HostReportItem) -> tuple[str, str]:
        """The USB device or, of what is of none, the PCI function that an item is or is of."""
        for kind, word in _HARDWARE_WORDS.items():
            if item.label == kind:
                return kind, item.host.name
            if not isinstance(name := self.read_fact(item, word), Absent):
                return kind, str(name)
        return _NO_HARDWARE

    def read_fact(self, item: HostReportItem, word: str) -> Value | Absent:
        """What a word says of an item."""
        return self._reader.read_fact(item.host, word)

    def find_listed_devices(self, spec: ResourceSpec) -> tuple[Device, ...]:
        """What an entry has listed, each once however many host devices it is; of slots all that its resource has."""
        items = [item for item in self.items if item.entry is spec]
        if spec.slots is None:
            return tuple(dict.fromkeys(item.device for item in items if item.device))
        names = dict.fromkeys((spec.name, *(item.resource for item in items)))
        return tuple(device for name in names for device in self.lists.get(name, ()))

    def find_resource_names(self, spec: ResourceSpec) -> tuple[str, ...]:
        """The names under which an entry's devices are listed."""
        return tuple(dict.fromkeys(item.resource for item in self.items if item.entry is spec and item.resource))

    def count_items(self, label: str) -> int:
        """How many items a source has, by label; interfaces of USB devices are parts of these."""
        return sum(item.label == label and not (label == "usb" and ":" in item.host.name) for item in self.items)
