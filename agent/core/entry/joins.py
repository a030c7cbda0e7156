"""Derived words and joins of an entry, and the interface that reads their facts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from agent.core.entry.partner_checks import PartnerChecks
from agent.core.entry.query import ProbeSpec
from agent.core.entry.source import Source
from agent.core.language.clause import Clause
from agent.core.language.glob import Glob
from agent.core.language.logic import Knowledge
from agent.core.language.value import Absent, Scalar, Value, ValueType
from agent.core.struct import Struct, field


class WordReader(Knowledge, Protocol):
    """The facts of one host device within one entry."""

    def get_captured(self, word: str) -> Value | Absent:
        """Return the value that the pattern of the source captured for a word."""

    def find_partner(self, join: Join) -> WordReader | Absent:
        """Return the partner of a join."""

    def get_unhealthy_reason(self, join: Join) -> str | Absent:
        """Return the unhealthy reason of a partner, or an empty string if the partner is healthy. Absent while
        unknown.
        """

    def read_texts(self, path: str) -> Sequence[str | Absent] | Absent:
        """Return the content of each file that matches a path, in natural order. A path without a glob has exactly
        one result.
        """

    def list_names(self, path: str) -> Sequence[str] | Absent:
        """Return the names of the files that match a path, in natural order. Absent if the directory is unreadable."""

    def list_directories(self, path: str) -> Sequence[WordReader]:
        """Return the directories that match a path, each as a device of its own, in natural order."""

    def add_derived_words(self, derived_words: Mapping[str, DerivedWord]) -> WordReader:
        """Return the facts of the same device with other derived words."""

    def get_probe_field(self, probe: ProbeSpec, field: str) -> Scalar | Absent:
        """Return the value of a field that a probe reports."""


class DerivedWord(Protocol):
    """A word that an entry defines."""

    def compute_value(self, facts: WordReader) -> Value | Absent:
        """Return the value of the word for a host device with these facts."""


class PartnerKey(NamedTuple):
    """A word of the partner by which the join finds it."""

    word: str
    kind: ValueType


class PathTemplate(Protocol):
    """A path with words of the device in it."""

    @property
    def join(self) -> Join | None:
        """The join whose partner the path belongs to. None: the device itself."""

    def write(self, facts: WordReader) -> str | Absent:
        """Return the path, or absent if a word has no usable value."""


class RelativeDirectory(Struct):
    """Directories below a path of the device. pattern: the glob of their last names, with captures."""

    path: PathTemplate
    pattern: Glob


class PartnerPool(Struct):
    """The devices among which a join finds its partner. Equal pools share one index.

    keys: the words by which a partner is found.
    match: the clause that a partner must match.
    derived_words: the derived words of a partner, including those of its own joins.
    joins: the joins of a partner.
    directory: the directory of the partners, if each device has its own. Such a pool has no index, and `source` is
        only a name.
    partner_checks: the checks of a partner, if a condition or check uses its health.
    """

    source: Source
    keys: tuple[PartnerKey, ...]
    match: Clause
    derived_words: Mapping[str, DerivedWord] = field(default_factory=dict)
    joins: tuple[Join, ...] = ()
    directory: RelativeDirectory | None = None
    partner_checks: PartnerChecks | None = None

    def __hash__(self) -> int:
        """Return a hash of the fields that nearly always differ. The other fields are long."""
        return hash((self.source, self.keys))

    def list_sources(self) -> Iterator[Source]:
        """Yield the sources of the pool and of the joins of its partners."""
        if self.directory is None:
            yield self.source
        for join in self.joins:
            yield from join.pool.list_sources()


class Join(Struct):
    """One `join.NAME`.

    key_words: the words of the device. Their values equal those of the `keys` of the pool, in the same order.
    optional: the device may have no partner. Otherwise the device is not ready until its partner exists.
    interval: the seconds between two reads of the source of the partners, besides kernel events.
    """

    name: str
    pool: PartnerPool
    key_words: tuple[str, ...]
    optional: bool = False
    interval: float | None = None

    def list_key_words(self) -> Iterator[tuple[str, ValueType]]:
        """Yield the words of the device, each with the type of the equal word of the partner."""
        for word, key in zip(self.key_words, self.pool.keys, strict=True):
            yield word, key.kind

    def list_partner_checks(self) -> Iterator[PartnerChecks]:
        """Yield the checks of all partners whose health is used."""
        if self.pool.partner_checks is not None:
            yield self.pool.partner_checks
        for join in self.pool.joins:
            yield from join.list_partner_checks()

    def list_source_intervals(self) -> Iterator[tuple[Source, float]]:
        """Yield the sources with a read interval in seconds."""
        if self.interval is not None:
            yield self.pool.source, self.interval
        for join in self.pool.joins:
            yield from join.list_source_intervals()
