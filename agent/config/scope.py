"""The scope of one entry during compilation: the words of its source, its accepted warnings, and its findings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple, Protocol, TypeVar

from agent.config.language.key_table import OPERATORS, PLACES, make_hint
from agent.config.merge.class_library import ClassLibrary
from agent.config.merge.config_tree import Branch, Leaf
from agent.config.toml.file_position import FilePosition, FindingMark, TextPiece
from agent.config.toml.finding import Finding, find_nearest
from agent.core.entry.joins import DerivedWord, Join
from agent.core.entry.partner_checks import PartnerChecks
from agent.core.entry.query import ProbeSpec
from agent.core.entry.resource_spec import NODE_NUMBER, Source
from agent.core.inventory.member_facts import MEMBER_LISTS, split_member_word
from agent.core.language.glob import PatternError
from agent.core.language.value import FormError, Value, ValueType
from agent.core.struct import Struct, replace
from agent.scanners import source_kinds

_T = TypeVar("_T")

# Words that only a grant has, with their types. `True`: equal for all devices of a container.
GRANT_WORDS: Mapping[str, tuple[ValueType, bool]] = {
    "resource": (ValueType.TEXT, True),
    "id": (ValueType.TEXT, False),
    "n": (ValueType.INT, False),
    "asked": (ValueType.INT, True),
    "offered": (ValueType.INT, True),
    "all_given": (ValueType.BOOL, True),
    "share": (ValueType.INT, False),
    "shares": (ValueType.INT, True),
    "share_percent": (ValueType.INT, True),
}

# Words of nodes that the agent selects itself (`given.NAME`).
# These words always exist. A text with the word of a node that is not given is left out.
_COMMON_NODES = frozenset(("vfio.control", "vfio.iommufd"))  # one node for all devices
_MEMBER_NODES = frozenset(("vfio.group", "vfio.cdev"))  # one node for each member of a group
_LIST_NODES = frozenset(("rdma.umad", "rdma.issm", "rdma.ucm"))
_AUTOMATIC_NODES = _COMMON_NODES | _MEMBER_NODES | _LIST_NODES | {"rdma.uverbs", "rdma.rdma_cm", "rdma.name"}


class WordSignature(Struct):
    """The type of a word, known without any host.

    is_list: the value is a list. varies: the value can differ between two devices of one container.
    table: the word is a list relation, and its items have the words of this table.
    varies_by_member: the value can differ between the members of one device.
    """

    kind: ValueType
    is_list: bool = False
    varies: bool = True
    table: str = ""
    varies_by_member: bool = False


# The signature of a word that is unknown because of another error. It causes no further finding.
ANYTHING = WordSignature(ValueType.TEXT, varies=False)
NO_WORDS: Mapping[str, WordSignature] = MappingProxyType({})


def require_all(items: Iterable[_T | None]) -> tuple[_T, ...] | None:
    """Return the items, or None if one of them is missing because of a fault."""
    all_items = list(items)
    present_items = tuple(item for item in all_items if item is not None)
    return present_items if len(present_items) == len(all_items) else None


class CompiledWord(NamedTuple):
    """A derived word of an entry, with its signature."""

    signature: WordSignature
    derived_word: DerivedWord


class EntryWordScope(Protocol):
    """The words that an entry defines."""

    def find_signature(self, word: str) -> WordSignature | None:
        """Return the signature of a derived word, or None if there is no such word."""

    def compile_path(self, spot: FilePosition, path: str, mark: FindingMark) -> WordSignature | None:
        """Return the signature of a path with words in it, or None with a finding."""

    def list_names(self) -> Iterable[str]:
        """Return the names of all words, as written."""

    def is_joined(self, word: str) -> bool:
        """Return whether this is a word of a partner."""

    def find_partner_signature(
        self, spot: FilePosition, word: str, mark: FindingMark, *, allows_health: bool
    ) -> WordSignature | None:
        """Return the signature of a word of a partner. Return None with a finding if the partner has no such word.

        allows_health: the health of the partner may be used.
        """

    def find_health_joins(self, words: Iterable[str]) -> tuple[str, ...]:
        """Return the joins whose partner health these words read."""

    def compile_all(self) -> dict[str, DerivedWord]:
        """Return all words without faults, used or not. All faults are reported."""

    def list_joins(self) -> tuple[Join, ...]:
        """Return all joins without faults, used or not."""

    def split_join_path(self, path: str) -> tuple[Join, str] | None:
        """Return the join at the beginning of a path, and the rest of the path. Return None if no join is usable."""


class Scope(Struct):
    """The words and settings that are known at one stage of an entry. Each stage is a scope of its own: the source,
    then the options, the members of groups, the derived words, the group, and the nodes that are given.

    source: None if it is unknown. Then every word is valid.

    has_all_keys, has_all_words: as in `Expansion`.
    is_single: the source has at most one device, so no value differs between two devices.
    node_words: the words `given.NAME`.
    options: the words `options.NAME`.
    table: the words are those of this table, not of the source.
    entry_words: the words that the entry defines. None until its source is known.
    is_grouped: several host devices may form one device. member_names: names of its members, which are words.
    is_before_grouping: the test applies to each host device, before groups exist.
    library: the classes and entries for joins. join_path: the classes and entries whose joins lead to this one.
    has_one_per_container: a container gets at most one device, so no value differs between its devices.
    is_reread_at_grant: the test runs again when a container gets its devices.
    option_values: the options that have a value.
    compile_partner_checks: compiles the checks of a joined class. allows_partner_health: a test may use them.
    captured_words: words captured from a kernel log line. has_only_captures: no other words exist.
    probes: the programs that report, by name. None for a program with an error.
    """

    source: Source | None
    has_all_keys: bool
    has_all_words: bool
    accepted_codes: frozenset[str]
    is_single: bool
    findings: list[Finding]
    node_words: Mapping[str, WordSignature] = NO_WORDS
    options: Mapping[str, WordSignature] = NO_WORDS
    table: str = ""
    entry_words: EntryWordScope | None = None
    is_grouped: bool = False
    member_names: frozenset[str] = frozenset()
    is_before_grouping: bool = False
    library: ClassLibrary | None = None
    join_path: tuple[str, ...] = ()
    has_one_per_container: bool = False
    is_reread_at_grant: bool = False
    option_values: Mapping[str, Value] = MappingProxyType({})
    compile_partner_checks: Callable[[str, Branch, Scope, float | None], PartnerChecks] | None = None
    allows_partner_health: bool = False
    captured_words: Mapping[str, WordSignature] = NO_WORDS
    has_only_captures: bool = False
    probes: Mapping[str, ProbeSpec | None] = MappingProxyType({})

    @property
    def has_several_devices(self) -> bool:
        """Return whether one container can have several devices, whose values differ."""
        return not (self.is_single or self.has_one_per_container)

    def report(self, finding: Finding) -> None:
        """Add an error to the findings."""
        self.findings.append(finding)

    def report_error(
        self, spot: FilePosition, code: str, message: str, write: str, *, mark: FindingMark = "value"
    ) -> None:
        """Add an error at a position to the findings."""
        self.findings.append(spot.make_error(code, message, write, mark=mark))

    def parse_text(self, spot: FilePosition, code: str, parse: Callable[[], _T]) -> _T | None:
        """Return what the text at a position is parsed to. Return None with a finding if the text has no such form."""
        try:
            return parse()
        except FormError as error:
            self.report_error(spot, code, error.message, error.write, mark=TextPiece(error.at, error.length))
            return None

    def require_leaf(self, branch: Branch, key: str, message: str, write: str) -> Leaf | None:
        """Return the value of a key of a table. Report it if it is missing."""
        leaf = branch.get_leaf(key)
        if leaf is None:
            self.report_missing(branch, message, write)
        return leaf

    def report_missing(self, branch: Branch, message: str, write: str) -> None:
        """Add the error that a table lacks a key. An unknown key has a finding already, and may be the missing one."""
        data = branch.spot.data
        keys = PLACES[branch.place].keys
        if self.has_all_keys and not (isinstance(data, dict) and any(key not in keys for key in data)):
            self.report_error(branch.spot, "missing", message, write, mark="key")

    def report_warning(
        self, spot: FilePosition, code: str, message: str, write: str, *, mark: FindingMark = "value"
    ) -> None:
        """Add a warning at a position to the findings, unless the entry accepts its code."""
        if code not in self.accepted_codes:
            self.findings.append(spot.make_warning(code, message, write, mark=mark))

    def find_word(
        self, spot: FilePosition, word: str, mark: FindingMark, *, in_grant: bool = False
    ) -> WordSignature | None:
        """Return the signature of a word, or None with a finding. in_grant: words that only a grant has are allowed."""
        if word in self.captured_words:
            return self.captured_words[word]
        if self.has_only_captures:
            message = f"the pattern takes no {word}, and this is over what it takes"
            write = make_hint(word, self.captured_words) or f"take it there: {{{word}:text}}"
            self.report_error(spot, "unknown-word", message, write, mark=mark)
            return None
        if word in GRANT_WORDS or word.startswith("given."):
            if in_grant or self.is_reread_at_grant:
                return self._find_grant_word(spot, word, mark)
            message = f"{word} is known only while a container gets its devices, and this is asked before"
            self.report_error(spot, "unknown-word", message, self._suggest_scan(), mark=mark)
            return None
        if word == NODE_NUMBER:
            message = f"{word} is the number of a node, known in the node's to"
            self.report_error(spot, "unknown-word", message, 'write it in "to", or a word of the device', mark=mark)
            return None
        if word.startswith("options.") and not self.table:
            return self._find_option(spot, word, mark)
        head, member_word = split_member_word(word)
        if not self.table and (head in MEMBER_LISTS or head in self.member_names):
            return self._find_member_word(spot, head, member_word, mark)
        if self.entry_words is not None and not self.table:
            if (signature := self.entry_words.find_signature(word)) is not None:
                return self._adapt_to_group(signature)
            if "/" in word and "{" in word:
                return self._adapt_to_group(self.entry_words.compile_path(spot, word, mark))
            if self.entry_words.is_joined(word):
                signature = self.entry_words.find_partner_signature(
                    spot, word, mark, allows_health=self.allows_partner_health
                )
                return self._adapt_to_group(signature)
        if "/" in word and "{" in word:
            self.report_error(
                spot,
                "path",
                "a path of one of several things has no words in it",
                "write it out, or read it by let of a join",
                mark=mark,
            )
            return None
        return self._find_source_word(spot, word, mark)

    def find_single_word(self, spot: FilePosition, word: str) -> WordSignature | None:
        """Return the signature of a word with one value. Return None with a finding for a list or an unknown word."""
        signature = self.find_word(spot, word, "text")
        if signature is None or not signature.is_list:
            return signature
        message = f"{word} is a list, and one value is wanted"
        self.report_error(spot, "type", message, "take a word that says one thing", mark="text")
        return None

    def _find_source_word(self, spot: FilePosition, word: str, mark: FindingMark) -> WordSignature | None:
        """Return the signature of a word of the source or of the table."""
        kind = self.table or (self.source.kind if self.source else "")
        if not kind:
            return ANYTHING
        try:
            word_type = source_kinds.get_word_type(kind, word)
        except source_kinds.UnknownWordError as unknown:
            if not self.has_all_words:
                return ANYTHING
            self.report(self._make_unknown_word_error(spot, word, mark, unknown))
            return None
        except PatternError as error:
            self.report_error(spot, "glob", error.message, error.write, mark=mark)
            return None
        is_host_word = word.startswith(("host.", "/"))
        return WordSignature(
            word_type.kind,
            word_type.is_list,
            self.has_several_devices and not is_host_word,
            word_type.table,
            varies_by_member=self.is_grouped and not is_host_word,
        )

    def _adapt_to_group(self, signature: WordSignature | None) -> WordSignature | None:
        """Return the signature for an entry whose devices have several members."""
        if signature is None or signature is ANYTHING:
            return signature
        return replace(
            signature,
            varies_by_member=self.is_grouped and (signature.varies or not self.has_several_devices),
        )

    def find_probe(self, leaf_spot: FilePosition, name: object) -> ProbeSpec | None:
        """Return the probe with this name. Return None with a finding if there is no such probe."""
        if name in self.probes:
            return self.probes[str(name)]
        if self.has_all_keys:
            write = make_hint(str(name), self.probes) or f'write [probe.{name}] with run = ["/usr/bin/…"]'
            self.report_error(leaf_spot, "unknown-probe", f"there is no probe {name}", write, mark="text")
        return None

    def enter_source(self, source: Source | None, *, is_single: bool) -> Scope:
        """Return the scope of the devices of a source, without words that an entry defines."""
        return replace(
            self,
            source=source,
            is_single=is_single,
            node_words=NO_WORDS,
            table="",
            entry_words=None,
            is_grouped=False,
            member_names=frozenset(),
            is_before_grouping=False,
            allows_partner_health=False,
        )

    def enter_table(self, table: str) -> Scope:
        """Return the scope of a clause on items of this table."""
        return replace(self, table=table, is_reread_at_grant=False)

    def is_word(self, word: str) -> bool:
        """Return whether a name is a word already. This includes the words of the entry."""
        is_entry_word = self.entry_words is not None and (
            word in self.entry_words.list_names() or self.entry_words.is_joined(word)
        )
        return (
            is_entry_word
            or word in GRANT_WORDS
            or word in self.member_names
            or word in MEMBER_LISTS
            or self.has_word(word)
        )

    def has_word(self, word: str) -> bool:
        """Return whether the source or the table has this word."""
        try:
            return bool(source_kinds.get_word_type(self.table or (self.source.kind if self.source else ""), word))
        except (source_kinds.UnknownWordError, KeyError):
            return False

    def _find_member_word(self, spot: FilePosition, head: str, word: str, mark: FindingMark) -> WordSignature | None:
        """Return the signature of a word of one member or of all members."""
        if self.is_before_grouping:
            message = f"{head} is known when it is known which are together, and this is asked of each before"
            write = "ask it where something is given, or in health"
            self.report_error(spot, "unknown-word", message, write, mark="key" if mark == "key" else "text")
            return None
        if isinstance(mark, TextPiece) and word:
            mark = TextPiece(mark.at + len(head) + 1, mark.length - len(head) - 1)
        member_scope = replace(self, member_names=frozenset())
        table = self.source.kind if self.source and head in MEMBER_LISTS else ""
        signature = WordSignature(ValueType.TEXT, varies=not self.is_single, table=table)
        if word:
            inner_head = split_member_word(word)[0]
            if inner_head in MEMBER_LISTS:
                self.report_error(
                    spot, "unknown-word", f"{head} has no word {inner_head}", f"write {inner_head}", mark=mark
                )
                return None
            word_signature = member_scope.find_word(spot, word, mark)
            if word_signature is None or word_signature is ANYTHING:
                return word_signature
            if self.entry_words is not None and self.entry_words.find_health_joins((word,)):
                message = f"health is asked of the partner of the first of those that are together, not of {head}"
                self.report_error(spot, "unknown-word", message, f"write {word}", mark=mark)
                return None
            signature = word_signature
        return replace(signature, is_list=signature.is_list or head in MEMBER_LISTS, varies_by_member=False)

    def _find_grant_word(self, spot: FilePosition, word: str, mark: FindingMark) -> WordSignature | None:
        if word in GRANT_WORDS:
            kind, constant = GRANT_WORDS[word]
            return WordSignature(kind, varies=self.has_several_devices and not constant)
        name = word.removeprefix("given.")
        if name in self.node_words:
            return self.node_words[name]
        if name in _AUTOMATIC_NODES:
            return WordSignature(
                ValueType.PATH,
                is_list=name in _LIST_NODES or (name in _MEMBER_NODES and self.is_grouped),
                varies=self.has_several_devices and name not in _COMMON_NODES,
            )
        if not self.has_all_words:
            return ANYTHING
        message = f"give.nodes has no {name}; given.NAME is where a node came out in the container"
        nearest_name = find_nearest(name, self.node_words)
        names_text = (
            f"there is {', '.join(f'given.{node_name}' for node_name in self.node_words)}" if self.node_words else ""
        )
        write = f"nearest: given.{nearest_name}" if nearest_name else names_text
        self.report_error(spot, "unknown-word", message, write, mark=mark)
        return None

    def _find_option(self, spot: FilePosition, word: str, mark: FindingMark) -> WordSignature | None:
        if word in self.options:
            return self.options[word]
        if not self.has_all_words:
            return ANYTHING
        message = f"no class that is used here has an option {word.removeprefix('options.')}"
        options_text = ", ".join(self.options)
        write = make_hint(word, self.options) or (
            f"there is {options_text}" if options_text else "options are declared by a class"
        )
        self.report_error(spot, "unknown-word", message, write, mark=mark)
        return None

    def _suggest_scan(self) -> str:
        """Return the command that lists the words of a device."""
        if self.source is None or self.table:
            return ""
        subsystem = self.source.kind == "subsystem"
        return (
            f"device-agent scan --words {self.source.arguments[0] if subsystem else self.source.kind} shows its words"
        )

    def _make_unknown_word_error(
        self, spot: FilePosition, word: str, mark: FindingMark, unknown: source_kinds.UnknownWordError
    ) -> Finding:
        entry_words = tuple(self.entry_words.list_names()) if self.entry_words else ()
        head, _, path_after = word.partition(".")
        if path_after and self.entry_words and (signature := self.entry_words.find_signature(head)) is not None:
            message = f"{head} is {signature.kind.value}, so no word stands behind it"
            return spot.make_error("unknown-word", message, f"write {head}", mark=mark)
        segment = unknown.segment
        if isinstance(mark, TextPiece) and segment and segment in word:
            mark = TextPiece(mark.at + word.rfind(segment), len(segment))
        write = make_hint(segment, (*unknown.choices, *entry_words)) or make_hint(segment, OPERATORS)
        if "/" not in word:
            source = self.source.kind if self.source and not self.table else ""
            table_name = f"source {source}" if unknown.table == source else unknown.table
            path = f"{word.removesuffix(segment).removesuffix('.') or '.'}/{segment}"
            if (
                not write
                and self.entry_words
                and segment.isidentifier()
                and word.endswith(segment)
                and self.has_word(path)
            ):
                write = f'if a file says it, let.{segment} = "{path}"'
            write = write or (self._suggest_scan() if unknown.table == source else "")
            return spot.make_error("unknown-word", f"no word {segment!r} of {table_name}", write, mark=mark)
        if word.startswith("/"):
            message = f"{word} is no path that can be read: those begin with /sys/, /proc/ or /dev/"
        else:
            message = f'"{word}" begins with no relation; "./{word}" is the device\'s own'
            write = write or f'write "./{word}"'
        return spot.make_error("unknown-word", message, write, mark=mark)
