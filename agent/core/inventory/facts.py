"""Facts of one host device for one entry: the words of the source and the derived words of the entry."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from agent.core.entry.give_conditions import KNOWN_LATER
from agent.core.entry.joins import DerivedWord, Join, PartnerPool
from agent.core.entry.query import ProbeSpec, Query, QueryResult
from agent.core.entry.resource_spec import ResourceSpec
from agent.core.inventory.device import HostDevice
from agent.core.inventory.host_paths import HostPaths
from agent.core.inventory.partner_words import PartnerWord
from agent.core.language.glob import Glob
from agent.core.language.value import Absent, Scalar, Value

_NOT_CAPTURED = Absent("the pattern that it fits does not take it")


class Reader(HostPaths, Protocol):
    """The reader of facts. Each fact is read at most once in a look. No method raises for what the host lacks."""

    def read_fact(self, device: HostDevice, word: str) -> Value | Absent:
        """Return the value of a word or path of a device."""

    def find_related_devices(self, device: HostDevice, word: str) -> tuple[HostDevice, ...] | Absent:
        """Return the devices that a relation leads to. Their `source` is the name of the table of their words."""

    def read_texts(self, device: HostDevice, path: str) -> Sequence[str | Absent] | Absent:
        """Return the text of each file that matches a path, in natural order. A path without a glob gives one text."""

    def list_names(self, device: HostDevice, path: str) -> Sequence[str] | Absent:
        """Return the names of all entries that match a path, in natural order. Absent if the read failed."""

    def list_directories(
        self, device: HostDevice, path: str, pattern: Glob | None = None
    ) -> Sequence[HostDevice] | Absent:
        """Return the directories below /sys and /proc that match a path, in natural order.

        They are devices of a `dir` source. pattern: takes words from the last part of each path.
        """

    def get_query_result(self, device: HostDevice, inquiry: Query) -> QueryResult:
        """Return the result of a query about a device."""

    def read_text(self, path: str) -> str | Absent:
        """Return the text of any file of the host."""

    def get_probe_field(self, device: HostDevice, probe: ProbeSpec, field: str) -> Scalar | Absent:
        """Return the value that a probe reports for a device and field."""

    def get_read_paths(self, device: HostDevice) -> frozenset[str]:
        """Return the directories and nodes that the facts of this device were read from, for `DirtySet`."""


class PartnerFinder(Protocol):
    """The finder of partners."""

    def find_partner(self, join: Join, facts: Facts) -> Facts | Absent:
        """Return the facts of the partner that a join finds for the device of `facts`, or why there is none."""

    def get_unhealthy_reason(self, join: Join, facts: Facts) -> str | Absent:
        """Return the unhealthy reason of that partner, empty if it is healthy. Absent while this is unknown."""


class _NoPartners:
    """A finder that finds no partner."""

    def find_partner(self, join: Join, facts: Facts) -> Facts | Absent:
        """See `PartnerFinder`."""
        del facts
        return Absent(f"no {join.name}: it was not looked for", pending=True)

    def get_unhealthy_reason(self, join: Join, facts: Facts) -> Absent:
        """See `PartnerFinder`."""
        del join, facts
        return KNOWN_LATER


NO_PARTNERS = _NoPartners()


class Facts:
    """The values of all words and paths of one host device for one entry. Each derived word is computed at most once.

    related_devices: other devices that these facts were read from, by key. The paths that the reader reads for them
        count for this device too.
    """

    __slots__ = (
        "_derived_words",
        "_partner_finder",
        "_partners",
        "_values",
        "device",
        "pool",
        "reader",
        "related_devices",
    )

    def __init__(
        self,
        spec: ResourceSpec | PartnerPool | None,
        device: HostDevice,
        reader: Reader,
        partner_finder: PartnerFinder = NO_PARTNERS,
    ) -> None:
        """Take the derived words of `spec`: an entry, a pool of partners, or None for no derived words."""
        self.device = device
        self.pool = spec if isinstance(spec, PartnerPool) else None
        self._partner_finder = partner_finder
        self._partners: dict[int, Facts | Absent] = {}  # by identity of the join, because comparing joins costs more
        self.reader = reader
        self._derived_words: Mapping[str, DerivedWord] = spec.derived_words if spec else {}
        self._values: dict[str, Value | Absent] = {}
        self.related_devices: dict[str, HostDevice] = {}

    def __call__(self, word: str) -> Value | Absent:
        """Return the value of a word or path."""
        derived_word = self._derived_words.get(word)
        if derived_word is None:
            return self.reader.read_fact(self.device, word)
        value = self._values.get(word)
        if value is None:
            value = self._values[word] = derived_word.compute_value(self)
        return value

    def find_partner(self, join: Join) -> Facts | Absent:
        """Return the facts of the partner that a join finds, or why there is none."""
        partner = self._partners.get(id(join))
        if partner is None:
            partner = self._partners[id(join)] = self._partner_finder.find_partner(join, self)
        return partner

    def get_unhealthy_reason(self, join: Join) -> str | Absent:
        """Return the unhealthy reason of the partner that a join finds. See `PartnerFinder`."""
        return self._partner_finder.get_unhealthy_reason(join, self)

    def list_dependencies(self) -> dict[str, HostDevice]:
        """Return all other devices that these facts depend on, by key.

        These are related devices, partners, and their dependencies.
        """
        dependencies = dict(self.related_devices)
        for partner in self._partners.values():
            if isinstance(partner, Facts):
                dependencies[partner.device.key] = partner.device
                dependencies.update(partner.list_dependencies())
        return dependencies

    def find_related_devices(self, word: str) -> tuple[HostDevice, ...] | Absent:
        """Return the devices that a relation leads to."""
        devices = self.reader.find_related_devices(self.device, word)
        if not isinstance(devices, Absent):
            self.related_devices.update((end.key, end) for end in devices)
        return devices

    def get_captured(self, word: str) -> Value | Absent:
        """Return the value that the pattern of the source takes for a word.

        It is absent if another pattern of the source matched.
        """
        return next((value for name, value in self.device.captures if name == word), _NOT_CAPTURED)

    def follow_relation(self, word: str) -> tuple[Facts, ...] | Absent:
        """Return the facts of each device that a list relation leads to, with the words of its table."""
        derived_word = self._derived_words.get(word)
        if isinstance(derived_word, PartnerWord):
            partner = self.find_partner(derived_word.join)
            return partner if isinstance(partner, Absent) else partner.follow_relation(derived_word.word)
        devices = self.find_related_devices(word)
        if isinstance(devices, Absent):
            return devices
        related_facts = tuple(Facts(None, end, self.reader) for end in devices)
        for facts in related_facts:
            facts.related_devices = self.related_devices
        return related_facts

    def get_query_result(self, inquiry: Query) -> QueryResult:
        """Return the result of a query about the device."""
        return self.reader.get_query_result(self.device, inquiry)

    def get_probe_field(self, probe: ProbeSpec, field: str) -> Scalar | Absent:
        """Return the value that a probe reports for the device and field."""
        return self.reader.get_probe_field(self.device, probe, field)

    def read_texts(self, path: str) -> Sequence[str | Absent] | Absent:
        """Return the text of each file that matches a path."""
        return self.reader.read_texts(self.device, path)

    def list_names(self, path: str) -> Sequence[str] | Absent:
        """Return the names of all entries that match a path."""
        return self.reader.list_names(self.device, path)

    def list_directories(self, path: str) -> tuple[Facts, ...]:
        """Return the facts of each directory that matches a path. The result is empty if the read failed."""
        result = self.reader.list_directories(self.device, path)
        directories = () if isinstance(result, Absent) else result
        self.related_devices.update((directory.key, directory) for directory in directories)
        return tuple(Facts(None, directory, self.reader) for directory in directories)

    def add_derived_words(self, derived_words: Mapping[str, DerivedWord]) -> Facts:
        """Return facts of the same device with these derived words."""
        facts = Facts(None, self.device, self.reader)
        facts._derived_words = derived_words
        return facts
