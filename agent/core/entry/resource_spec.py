"""A resource as configured: a frozen sentence about host devices, compiled from an entry and its classes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from agent.core.entry.check import Check
from agent.core.entry.group import Grouping
from agent.core.entry.joins import DerivedWord, Join
from agent.core.entry.partner_checks import PartnerCondition
from agent.core.entry.prefer import PreferRule
from agent.core.entry.program import Program
from agent.core.entry.source import Source as Source  # noqa: PLC0414  whoever speaks of entries finds it here
from agent.core.language.clause import Clause, Origin
from agent.core.language.glob import Glob
from agent.core.language.json_template import JsonTable
from agent.core.language.template import Template
from agent.core.struct import Struct, field, not_compared, replace

SHARE_MARK = "::"  # between a device's id and the number of its share; no text of a device can hold it
NODE_NUMBER = "major_minor"  # of the node that a `to` is said of: 511:3
GRANT_WORDS = frozenset(
    ("resource", "id", "n", "asked", "offered", "all_given", "share", "shares", "share_percent")
)  # words of the giving itself, beside given.NAME; no source has them
SHARE_DIGITS = 6  # of the largest number of a share
_ANYWHERE = Origin("", 0)


@not_compared("origin")
class NodeGive(Struct):
    """`give.nodes.NAME`: device nodes to hand out. `permissions` is one of r, w, m in that order, never empty.

    each: where several host devices are one device, each gives its own.
    when: where it is given, here and in what follows; None if always.
    tells: words `given.NAME` that are known where it is given, with what they say.
    in_spec: a CDI spec of our own says it, as it is the same for every container, here and in what follows.
    """

    name: str
    path: Template
    container_paths: tuple[Template, ...]
    permissions: str
    optional: bool
    origin: Origin
    per_member: bool = False
    condition: Clause | None = None
    in_spec: bool = False
    given_words: tuple[tuple[str, Template], ...] = ()


@not_compared("origin")
class MountGive(Struct):
    """`give.mounts.NAME`: files and directories of the host. `path` may be a glob; a `to` that ends in `/` keeps names,
    and without any each comes out where it is on the host. each: as of `NodeGive`.
    """

    name: str
    path: Template
    container_paths: tuple[Template, ...]
    read_only: bool
    optional: bool
    origin: Origin
    per_member: bool = False
    condition: Clause | None = None
    in_spec: bool = False


@not_compared("origin")
class CdiGive(Struct):
    """`give.cdi.NAME`: a CDI device by its full name. `via` is "field" or "annotation": how the runtime is told.

    unchecked: it is given whether or not a spec on the host has it.
    """

    key: str
    name: Template
    via: str
    unchecked: bool
    origin: Origin
    condition: Clause | None = None


@not_compared("origin")
class EnvGive(Struct):
    """`give.env.KEY`, `give.annotations.KEY`: a variable, or an annotation of the container.

    value: a text, or what becomes JSON. join: what glues the values of several devices. member: with JSON, the name
    under which each device's is a member of one object.
    """

    key: str
    name: Template
    value: Template | JsonTable
    separator: str | None
    origin: Origin
    condition: Clause | None = None
    member_key: Template | None = None
    in_spec: bool = False

    @property
    def templates(self) -> tuple[Template, ...]:
        """All texts in it."""
        value = (self.value,) if isinstance(self.value, Template) else tuple(self.value.find_templates())
        return (self.name, *value, *([] if self.member_key is None else [self.member_key]))


@not_compared("origin")
class VfioGive(Struct):
    """That an entry gives by VFIO, whose nodes are among its others: who has one function of an IOMMU group has all."""

    origin: Origin
    condition: Clause | None = None


class ShareMap(Struct):
    """`replicas.by`: how many shares, by what a word says: the count of its text, else of the longest pattern that
    fits, else `otherwise`. `map` is what was written, in canonical texts.
    """

    word: str
    counts: tuple[tuple[str, int], ...]
    patterns: tuple[tuple[Glob, int], ...] = ()
    default: int | None = None

    def find_count(self, text: str) -> int | None:
        """How many shares that is; none if nothing says."""
        for key, count in self.counts:
            if key == text:
                return count
        return next((count for pattern, count in self.patterns if pattern.matches(text)), self.default)


class Limit(Struct):
    """`limit`: how many ids one container may have, and whether two shares of one device may be among them."""

    per_container: int | None = None
    distinct: bool = False


class Slots(Struct):
    """`slots`: so many shares of all devices together, named by a text with `{n}` and perhaps `{resource}`."""

    count: int
    id: Template


class ResourceSpec(Struct):
    """One `[[resource]]` entry with its classes merged in, checked and compiled.

    name: the resource's name as written; of an entry that adds to another's resource (`adds`), that other's.
    name_text: the same where it has words: the entry is of all resources that come out of it.
    id: the alternatives, best first.
    shares, shares_by: into how many a device is divided, always or by a word; None both where it is whole. `suffix`
        stands between id and number.
    slots: its devices are given all together; it takes none of them away from other entries.
    wait, gate: clauses while one of which holds, and until all of which hold, its devices are not offered.
    hinges: the `wait` that speak of the health of partners. leans: the joins of whose partners' health clauses speak by
        which something is given.
    topology: the word that says the NUMA node, or the nodes themselves.
    expect: so many devices should be there.
    registration: "socket" or "watcher".
    vfio: where it gives by VFIO; empty if it never does.
    own: the words that it brings with it (`options.NAME`, those of `let`), and its paths that have words in them, all
        as they are written in clauses and texts.
    group: None where each host device is a device.
    every: seconds after which its source is looked at again; None where the sweep is enough.
    devinfo: what becomes the device-information file of each device; None where there is none.
    prefer: the rules by which its devices are chosen, the first first.
    via: how a CDI spec of our own is named, "cdi" or "cdi-annotation"; empty without one.
    prepare, prestart: programs that are run for the machine, before gates are asked, and before a container starts.
    moves: None if its devices stay on the host; else the words that tell of what leaves it with a pod, none if that is
        the device itself.
    """

    name: str
    origin: Origin
    class_name: str | None
    source: Source
    match: Clause
    exclude: tuple[Clause, ...]
    id: tuple[Template, ...]
    shares: int | None
    nodes: tuple[NodeGive, ...]
    env: tuple[EnvGive, ...]
    registration: str
    derived_words: Mapping[str, DerivedWord] = field(default_factory=dict)
    group: Grouping | None = None
    mounts: tuple[MountGive, ...] = ()
    annotations: tuple[EnvGive, ...] = ()
    cdi: tuple[CdiGive, ...] = ()
    interval: float | None = None
    joins: tuple[Join, ...] = ()
    is_addition: bool = False
    name_template: Template | None = None
    share_map: ShareMap | None = None
    share_suffix: str = SHARE_MARK
    slots: Slots | None = None
    limit: Limit = Limit()
    wait: tuple[Clause, ...] = ()
    gate: tuple[Clause, ...] = ()
    partner_conditions: tuple[PartnerCondition, ...] = ()
    partner_joins: tuple[str, ...] = ()
    topology: str | tuple[int, ...] = "numa"
    expect: int | None = None
    checks: tuple[Check, ...] = ()
    devinfo: JsonTable | None = None
    prefer: tuple[PreferRule, ...] = ()
    vfio: tuple[VfioGive, ...] = ()
    prepare: tuple[Program, ...] = ()
    prestart: tuple[Program, ...] = ()
    moved_words: tuple[str, ...] | None = None
    via: str = ""

    def drop_origin(self) -> object:
        """What two equal entries share wherever they are written."""
        return replace(self, origin=_ANYWHERE, class_name=None)

    @property
    def source_intervals(self) -> tuple[tuple[Source, float], ...]:
        """How often to look where, besides events."""
        source_pairs = () if self.interval is None else ((self.source, self.interval),)
        return (*source_pairs, *(pair for join in self.joins for pair in join.list_source_intervals()))

    @property
    def sources(self) -> tuple[Source, ...]:
        """Where to look for its devices and their partners, its own first."""
        return (self.source, *(source for join in self.joins for source in join.pool.list_sources()))

    @property
    def written_name(self) -> str:
        """Its name as written if that has words; nothing if it is simply the name."""
        return "" if self.name_template is None else self.name

    @property
    def is_unshared(self) -> bool:
        """Whether ids have no suffix, for each device is one."""
        return self.shares is None and self.share_map is None

    @property
    def suffix_length(self) -> int:
        """Characters that a share's suffix may take of an id; room for any number, so that more shares rename none."""
        return 0 if self.is_unshared else len(self.share_suffix) + SHARE_DIGITS

    def list_checks(self) -> Iterator[Check]:
        """Its checks, and those of partners of whose health they speak."""
        yield from self.checks
        for join in self.joins:
            for cared in join.list_partner_checks():
                yield from cared.checks

    def find_give_words(self) -> frozenset[str]:
        """The words of the host that what it gives mentions: what is read anew for each grant."""
        texts = [
            text
            for node in self.nodes
            for text in (node.path, *node.container_paths, *(text for _, text in node.given_words))
        ]
        texts += [text for mount in self.mounts for text in (mount.path, *mount.container_paths)]
        texts += [text for env_give in (*self.env, *self.annotations) for text in env_give.templates]
        texts += [item.name for item in self.cdi]
        texts += [] if self.devinfo is None else self.devinfo.find_templates()
        words = {slot.word for text in texts for slot in text.slots}
        words.update(line.word for condition in self.give_conditions for line in condition.walk_lines())
        return frozenset(word for word in words if word != NODE_NUMBER and not is_grant_word(word))

    def find_prestart_words(self) -> frozenset[str]:
        """The words of the host that its `prestart` mentions."""
        return frozenset(word for program in self.prestart for word in program.list_words() if not is_grant_word(word))

    @property
    def prestart_conditions(self) -> tuple[Clause, ...]:
        """The clauses that its `prestart` is run by."""
        return tuple(program.condition for program in self.prestart if program.condition is not None)

    @property
    def give_conditions(self) -> tuple[Clause, ...]:
        """The clauses that what it gives is given by."""
        gives: tuple[NodeGive | MountGive | EnvGive | CdiGive, ...]
        gives = (*self.nodes, *self.mounts, *self.env, *self.annotations, *self.cdi)
        return tuple(give.condition for give in gives if give.condition is not None)


def is_grant_word(word: str) -> bool:
    """Whether only a grant knows a word."""
    return word in GRANT_WORDS or word.startswith("given.")
