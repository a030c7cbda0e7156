"""Resource specs: one entry with its classes, checked and compiled to frozen values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from agent.core.entry.check import Check
from agent.core.entry.group import Grouping
from agent.core.entry.joins import DerivedWord, Join
from agent.core.entry.partner_checks import PartnerCondition
from agent.core.entry.prefer import PreferRule
from agent.core.entry.program import Program
from agent.core.entry.source import Source as Source  # noqa: PLC0414  re-export for users of entries
from agent.core.language.clause import Clause, Origin
from agent.core.language.glob import Glob
from agent.core.language.json_template import JsonTable
from agent.core.language.template import Template
from agent.core.struct import Struct, field, ignore_in_comparison, replace

SHARE_MARK = "::"  # between device ID and share number; a cleaned device ID cannot contain it
NODE_NUMBER = "major_minor"  # of the node that a `to` belongs to, for example 511:3
GRANT_WORDS = frozenset(
    ("resource", "id", "n", "asked", "offered", "all_given", "share", "shares", "share_percent")
)  # words of a grant, besides given.NAME; no source has them
SHARE_DIGITS = 6  # digits of the largest share number
_ANYWHERE = Origin("", 0)


@ignore_in_comparison("origin")
class NodeGive(Struct):
    """One `give.nodes.NAME`: device nodes for the container. `permissions` has one or more of r, w, m, in this
    order.

    container_paths: the paths of the node in the container (`to`).
    per_member: each member of a group gives its own node.
    condition: the clause that must match. None: always given. The other gives have this field too.
    in_spec: the generated CDI spec contains this, because all containers get the same. The other gives have this
        field too.
    given_words: words `given.NAME` that have a value if this is given.
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


@ignore_in_comparison("origin")
class MountGive(Struct):
    """One `give.mounts.NAME`: files and directories of the host. `path` can be a glob.

    container_paths: a path that ends in `/` keeps the file names. Without a path, the container path equals the host
        path.
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


@ignore_in_comparison("origin")
class CdiGive(Struct):
    """One `give.cdi.NAME`: a CDI device by its qualified name.

    via: "field" or "annotation" of the Allocate response.
    unchecked: the device is given without a search for its spec.
    """

    key: str
    name: Template
    via: str
    unchecked: bool
    origin: Origin
    condition: Clause | None = None


@ignore_in_comparison("origin")
class EnvGive(Struct):
    """One `give.env.KEY` or `give.annotations.KEY`: a variable or an annotation of the container.

    value: a template, or a table that becomes JSON.
    separator: the text between the values of several devices.
    member_key: with JSON, the key of each device in the one object.
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
        """Templates of the name, the value and the member key."""
        value = (self.value,) if isinstance(self.value, Template) else tuple(self.value.find_templates())
        return (self.name, *value, *([] if self.member_key is None else [self.member_key]))


@ignore_in_comparison("origin")
class VfioGive(Struct):
    """A use of VFIO by an entry. Its nodes are among `nodes`. The container that has one function of an IOMMU group
    has the whole group.
    """

    origin: Origin
    condition: Clause | None = None


class ShareMap(Struct):
    """The number of shares by the value of a word (`replicas.by`).

    counts: the numbers by value, in canonical form.
    patterns: the numbers by glob, longest first. They follow the exact values.
    default: the number for all other values.
    """

    word: str
    counts: tuple[tuple[str, int], ...]
    patterns: tuple[tuple[Glob, int], ...] = ()
    default: int | None = None

    def find_count(self, text: str) -> int | None:
        """Return the number of shares for a value, or None."""
        for key, count in self.counts:
            if key == text:
                return count
        return next((count for pattern, count in self.patterns if pattern.matches(text)), self.default)


class Limit(Struct):
    """The limits of one container (`limit`).

    per_container: the largest number of device IDs.
    distinct: no two shares of one device.
    """

    per_container: int | None = None
    distinct: bool = False


class Slots(Struct):
    """The slots of a resource (`slots`): each ID gives all devices. The template of the ID has `{n}` and can have
    `{resource}`.
    """

    count: int
    id: Template


class ResourceSpec(Struct):
    """One `[[resource]]` entry with its classes merged in, checked and compiled.

    name: the resource name as written. For an entry with `adds_to`, the name of the other entry.
    name_template: the name, if it has words. The entry then makes a resource for each generated name.
    id: the templates of the device ID, best first.
    shares, share_map: the number of shares of a device, constant or by a word. Both are None if a device has no
        shares.
    share_suffix: the text between the device ID and the share number.
    slots: each ID gives all devices. Such an entry takes no device away from other entries.
    wait, gate: not-ready conditions and preconditions. A device is not ready while one of the first matches, or one
        of the second does not.
    partner_conditions: the not-ready conditions about the health of partners.
    partner_joins: the joins whose partner health a condition of `give` uses.
    topology: the word of the NUMA node, or the nodes.
    expect: the expected number of devices.
    registration: "socket" or "watcher".
    vfio: the uses of VFIO, empty for none.
    derived_words: the words that the entry defines (`options.NAME`, `let`) and its paths with words, as written in
        clauses and templates.
    group: None if each host device is one device.
    interval: the seconds between two reads of its source. None: the full rescan is enough.
    devinfo: the template of the device-information file, or None.
    prefer: the rules that choose devices. The first has priority.
    via: how the generated CDI spec is named, "cdi" or "cdi-annotation". Empty without a spec.
    prepare, prestart: programs that run for the machine before its preconditions are evaluated, and before a
        container starts.
    moved_words: the words about what moves into a pod. Empty: the device itself moves. None: nothing moves.
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
        """Return the entry without its origin. Two entries with equal meaning give equal results."""
        return replace(self, origin=_ANYWHERE, class_name=None)

    @property
    def source_intervals(self) -> tuple[tuple[Source, float], ...]:
        """The sources with a read interval in seconds, besides kernel events."""
        source_pairs = () if self.interval is None else ((self.source, self.interval),)
        return (*source_pairs, *(pair for join in self.joins for pair in join.list_source_intervals()))

    @property
    def sources(self) -> tuple[Source, ...]:
        """The sources of its devices and of their partners. The source of the entry is first."""
        return (self.source, *(source for join in self.joins for source in join.pool.list_sources()))

    @property
    def written_name(self) -> str:
        """The name as written if the name has words, else an empty string."""
        return "" if self.name_template is None else self.name

    @property
    def is_unshared(self) -> bool:
        """True if device IDs have no suffix, because each device has one ID."""
        return self.shares is None and self.share_map is None

    @property
    def suffix_length(self) -> int:
        """The characters of an ID for the share suffix. The length suits any number, so that more shares change no
        ID.
        """
        return 0 if self.is_unshared else len(self.share_suffix) + SHARE_DIGITS

    def list_checks(self) -> Iterator[Check]:
        """Yield its checks, and the checks of partners whose health is used."""
        yield from self.checks
        for join in self.joins:
            for partner_checks in join.list_partner_checks():
                yield from partner_checks.checks

    def find_give_words(self) -> frozenset[str]:
        """Return the host words in all that the entry gives. Each grant reads them again."""
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
        """Return the host words in `prestart`."""
        return frozenset(word for program in self.prestart for word in program.list_words() if not is_grant_word(word))

    @property
    def prestart_conditions(self) -> tuple[Clause, ...]:
        """The conditions of the `prestart` programs."""
        return tuple(program.condition for program in self.prestart if program.condition is not None)

    @property
    def give_conditions(self) -> tuple[Clause, ...]:
        """The conditions of all that the entry gives."""
        gives: tuple[NodeGive | MountGive | EnvGive | CdiGive, ...]
        gives = (*self.nodes, *self.mounts, *self.env, *self.annotations, *self.cdi)
        return tuple(give.condition for give in gives if give.condition is not None)


def is_grant_word(word: str) -> bool:
    """Return whether a word has a value only during a grant."""
    return word in GRANT_WORDS or word.startswith("given.")
