"""Own words and joins: what an entry brings with it to say of a device, and what it may ask for that."""

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
        """What the source's pattern took for a word."""

    def find_partner(self, join: Join) -> WordReader | Absent:
        """The device that a join means."""

    def get_unhealthy_reason(self, join: Join) -> str | Absent:
        """Why the device is ill that a join means, empty if it is well; absent while that is not known."""

    def read_texts(self, path: str) -> Sequence[str | Absent] | Absent:
        """What each file says that fits a path, in natural order; of a path without a glob always one."""

    def list_names(self, path: str) -> Sequence[str] | Absent:
        """The names of what fits a path, in natural order; absent if that could not be told."""

    def list_directories(self, path: str) -> Sequence[WordReader]:
        """The directories that fit a path, each a thing of its own, in natural order."""

    def add_derived_words(self, derived_words: Mapping[str, DerivedWord]) -> WordReader:
        """The same thing, with words of its own."""

    def get_probe_field(self, probe: ProbeSpec, field: str) -> Scalar | Absent:
        """What a probe reports as a field."""


class DerivedWord(Protocol):
    """A word of an entry's own."""

    def compute_value(self, facts: WordReader) -> Value | Absent:
        """What it says of a host device of which `facts` tells."""


class PartnerKey(NamedTuple):
    """A word by which a partner is known."""

    word: str
    kind: ValueType


class PathTemplate(Protocol):
    """A path that is another for each device that asks."""

    @property
    def join(self) -> Join | None:
        """Whose partner's path it is; None for that of the device itself."""

    def write(self, facts: WordReader) -> str | Absent:
        """The path."""


class RelativeDirectory(NamedTuple):
    """Directories below something that belongs to the device that asks. pattern: of their last names, what it takes."""

    path: PathTemplate
    pattern: Glob


class PartnerPool(Struct):
    """The devices among which a partner is looked for: equal pools share one index.

    match: what is asked of a partner. own: its own words, joins of its own among them. joins: these.
    below: where each device that asks has partners of its own; then there is no index, and `source` is only a name.
    cared: what keeps one well, if anybody speaks of that.
    """

    source: Source
    keys: tuple[PartnerKey, ...]
    match: Clause
    derived_words: Mapping[str, DerivedWord] = field(default_factory=dict)
    joins: tuple[Join, ...] = ()
    directory: RelativeDirectory | None = None
    partner_checks: PartnerChecks | None = None

    def __hash__(self) -> int:
        """Of what nearly always differs: the rest is long."""
        return hash((self.source, self.keys))

    def list_sources(self) -> Iterator[Source]:
        """Where to look for all of that."""
        if self.directory is None:
            yield self.source
        for join in self.joins:
            yield from join.pool.list_sources()


class Join(Struct):
    """`join.NAME`. `ours`: the words of the device that are equal to `theirs` of the pool, in that order.

    optional: a device may be without; else it waits for its partner. every: seconds between looks at the partners'
    source besides its events.
    """

    name: str
    pool: PartnerPool
    key_words: tuple[str, ...]
    optional: bool = False
    interval: float | None = None

    def list_key_words(self) -> Iterator[tuple[str, ValueType]]:
        """The words of `ours`, each of the kind of what it is to be equal to."""
        for word, key in zip(self.key_words, self.pool.keys, strict=True):
            yield word, key.kind

    def list_partner_checks(self) -> Iterator[PartnerChecks]:
        """Of whose health anybody speaks."""
        if self.pool.partner_checks is not None:
            yield self.pool.partner_checks
        for join in self.pool.joins:
            yield from join.list_partner_checks()

    def list_source_intervals(self) -> Iterator[tuple[Source, float]]:
        """How often to look where, besides events."""
        if self.interval is not None:
            yield self.pool.source, self.interval
        for join in self.pool.joins:
            yield from join.list_source_intervals()
