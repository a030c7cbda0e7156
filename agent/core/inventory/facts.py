"""Facts: what is known of one host device as one entry speaks of it, its own words beside those of the source."""

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
    """Facts of host devices, each read at most once in a look. No call raises for what the host lacks."""

    def read_fact(self, device: HostDevice, word: str) -> Value | Absent:
        """What a word or path says of a device."""

    def find_related_devices(self, device: HostDevice, word: str) -> tuple[HostDevice, ...] | Absent:
        """What a relation or a many leads to. The `source` of each end is the name of the table of its words."""

    def read_texts(self, device: HostDevice, path: str) -> Sequence[str | Absent] | Absent:
        """What each file says that fits a path, in natural order; of a path without a glob always one."""

    def list_names(self, device: HostDevice, path: str) -> Sequence[str] | Absent:
        """The names of what fits a path, in natural order; absent if that could not be told."""

    def list_directories(
        self, device: HostDevice, path: str, pattern: Glob | None = None
    ) -> Sequence[HostDevice] | Absent:
        """The directories below /sys and /proc that fit a path, in natural order, as devices of a `dir` source.

        pattern: takes words of their last names.
        """

    def get_query_result(self, device: HostDevice, inquiry: Query) -> QueryResult:
        """What is known of an inquiry about a device."""

    def read_text(self, path: str) -> str | Absent:
        """What a file says, wherever it is."""

    def get_probe_field(self, device: HostDevice, probe: ProbeSpec, field: str) -> Scalar | Absent:
        """What a probe reports of a device as a field."""

    def get_read_paths(self, device: HostDevice) -> frozenset[str]:
        """The directories and nodes whose content this device's facts came from, for `Touched`."""


class PartnerFinder(Protocol):
    """Who knows which device is whose partner."""

    def find_partner(self, join: Join, facts: Facts) -> Facts | Absent:
        """The facts of the partner that a join means for the device of which `facts` tell."""

    def get_unhealthy_reason(self, join: Join, facts: Facts) -> str | Absent:
        """Why that partner is ill, empty if it is well; absent while that is not known."""


class _NoPartners:
    """Who knows of no partners."""

    def find_partner(self, join: Join, facts: Facts) -> Facts | Absent:
        """See `Finder`."""
        del facts
        return Absent(f"no {join.name}: it was not looked for", pending=True)

    def get_unhealthy_reason(self, join: Join, facts: Facts) -> Absent:
        """See `Finder`."""
        del join, facts
        return KNOWN_LATER


NO_PARTNERS = _NoPartners()


class Facts:
    """What any word or path says of one host device within one entry; each own word is evaluated at most once.

    ends: the other devices that these facts rest on, by key; what the reader consulted for them counts for this one.
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
        """`spec`: whose own words there are: an entry's, those of a pool of partners, or of nobody."""
        self.device = device
        self.pool = spec if isinstance(spec, PartnerPool) else None
        self._partner_finder = partner_finder
        self._partners: dict[int, Facts | Absent] = {}  # by the identity of the join: to compare two costs more
        self.reader = reader
        self._derived_words: Mapping[str, DerivedWord] = spec.derived_words if spec else {}
        self._values: dict[str, Value | Absent] = {}
        self.related_devices: dict[str, HostDevice] = {}

    def __call__(self, word: str) -> Value | Absent:
        """What a word or path says."""
        derived_word = self._derived_words.get(word)
        if derived_word is None:
            return self.reader.read_fact(self.device, word)
        value = self._values.get(word)
        if value is None:
            value = self._values[word] = derived_word.compute_value(self)
        return value

    def find_partner(self, join: Join) -> Facts | Absent:
        """The facts of the device that a join means."""
        partner = self._partners.get(id(join))
        if partner is None:
            partner = self._partners[id(join)] = self._partner_finder.find_partner(join, self)
        return partner

    def get_unhealthy_reason(self, join: Join) -> str | Absent:
        """Why the partner is ill that a join means."""
        return self._partner_finder.get_unhealthy_reason(join, self)

    def list_dependencies(self) -> dict[str, HostDevice]:
        """The other devices that these facts rest on, by key: ends of relations, partners, and what those rest on."""
        dependencies = dict(self.related_devices)
        for partner in self._partners.values():
            if isinstance(partner, Facts):
                dependencies[partner.device.key] = partner.device
                dependencies.update(partner.list_dependencies())
        return dependencies

    def find_related_devices(self, word: str) -> tuple[HostDevice, ...] | Absent:
        """What a relation or a many leads to."""
        devices = self.reader.find_related_devices(self.device, word)
        if not isinstance(devices, Absent):
            self.related_devices.update((end.key, end) for end in devices)
        return devices

    def get_captured(self, word: str) -> Value | Absent:
        """What the source's pattern took for a word; another of its patterns may have fitted."""
        return next((value for name, value in self.device.captures if name == word), _NOT_CAPTURED)

    def follow_relation(self, word: str) -> tuple[Facts, ...] | Absent:
        """What the words of its table say of each thing that a many leads to."""
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
        """What is known of an inquiry about it."""
        return self.reader.get_query_result(self.device, inquiry)

    def get_probe_field(self, probe: ProbeSpec, field: str) -> Scalar | Absent:
        """What a probe reports of it as a field."""
        return self.reader.get_probe_field(self.device, probe, field)

    def read_texts(self, path: str) -> Sequence[str | Absent] | Absent:
        """What each file says that fits a path."""
        return self.reader.read_texts(self.device, path)

    def list_names(self, path: str) -> Sequence[str] | Absent:
        """The names of what fits a path."""
        return self.reader.list_names(self.device, path)

    def list_directories(self, path: str) -> tuple[Facts, ...]:
        """The directories that fit a path, each a thing of its own; none where that cannot be told."""
        result = self.reader.list_directories(self.device, path)
        directories = () if isinstance(result, Absent) else result
        self.related_devices.update((directory.key, directory) for directory in directories)
        return tuple(Facts(None, directory, self.reader) for directory in directories)

    def add_derived_words(self, derived_words: Mapping[str, DerivedWord]) -> Facts:
        """The same thing, with words of its own."""
        facts = Facts(None, self.device, self.reader)
        facts._derived_words = derived_words
        return facts
