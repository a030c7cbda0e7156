"""`join`: "its NAME is the … whose …", compiled to where its partner is looked for and by what that is known."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from agent.config.clauses.clause import compile_clause
from agent.config.language.key_table import make_hint
from agent.config.merge.class_library import MergedEntry
from agent.config.merge.config_tree import Branch, Leaf, override
from agent.config.scope import ANYTHING, EntryWordScope, Scope
from agent.config.sources import compile_interval, compile_source, is_single
from agent.config.toml.file_position import FilePosition
from agent.config.toml.finding import Severity
from agent.config.values.probe_table import compile_probes
from agent.config.words.class_options import compile_options
from agent.config.words.relative_directory import compile_below, is_below, silent
from agent.core.entry.joins import DerivedWord, Join, PartnerKey, PartnerPool, RelativeDirectory
from agent.core.entry.resource_spec import Source
from agent.core.language.clause import Clause
from agent.core.struct import Struct, replace

# What is taken over of a class that is joined.
_OF_WORDS = frozenset(("source", "let", "join", "options", "probe", "health", "wait", "gate", "give"))
_WRITE = 'write for example source = "pci"'


class PartnerWords(EntryWordScope, Protocol):
    """The own words of a partner."""

    def all(self) -> dict[str, DerivedWord]:
        """All that could be compiled."""

    def joins(self) -> tuple[Join, ...]:
        """Its joins."""


class WordsOf(Protocol):
    """Makes the own words of a tree."""

    def __call__(self, tree: Branch, scope: Scope, constants: Mapping[str, DerivedWord]) -> PartnerWords:
        """The own words of that tree in that scope."""


class Partner(Struct):
    """How the own words of a partner are made, and whether anybody speaks of its health."""

    words_of: WordsOf
    cared: bool


class CompiledJoin(Struct):
    """A join, and the scope in which the words of its partner are."""

    join: Join
    scope: Scope
    health: bool  # it has `healthy` and `reason`: it is of a class


def compile_join(
    name: str, branch: Branch, scope: Scope, constants: Mapping[str, DerivedWord], partner: Partner
) -> CompiledJoin | None:
    """The join that `join.NAME` is; none, with findings, if something is wrong with it."""
    if not branch.verbs:
        scope.report(branch.spot.make_error("missing", f"join.{name} does not say where to look", _WRITE, mark="key"))
        return None
    (verb,) = branch.verbs
    tree = _tree(verb, branch, scope)
    if tree is None:
        return None
    leaf = tree.get_leaf("source")
    if leaf is None:
        scope.report(
            branch.spot.get_child(verb).make_error("missing", "it has no source, so nothing is looked at", _WRITE)
        )
        return None
    known = len(scope.findings)
    inner = replace(
        scope,
        source=None,
        node_words={},
        options={**scope.options},
        table="",
        entry_words=None,
        is_grouped=False,
        member_names=set(),
        is_before_grouping=False,
        allows_partner_health=False,
    )
    said = branch.get_leaf("dir")
    below: RelativeDirectory | None = None
    if said is not None and is_below(said.value):
        below = compile_below(branch.spot.get_child("dir"), str(said.value), scope)
        inner.source = Source("dir", (str(said.value),)) if below else None
    else:
        inner.source = compile_source(leaf, inner)
    if inner.source is None:
        return None
    inner.is_single = below is None and is_single(inner.source)
    inner.has_all_keys = inner.has_all_words = True
    of_class = verb in {"class", "resource"}
    if of_class:
        inner.options = {}
        constants = compile_options(tree, inner, tree.spot, demanded=False)
        named = branch.get_leaf(verb)
        inner.join_path = (*scope.join_path, str(named.value) if named else "")
    inner.probes = compile_probes(tree, inner, scope.probes)
    words = inner.entry_words = partner.words_of(tree, inner, constants)
    every = compile_interval(leaf, inner)
    cares = scope.compile_partner_checks if of_class and partner.cared else None
    cared = cares(inner.join_path[-1], tree, inner, every) if cares else None
    on = equal_words(branch.get_leaf("on"), scope, inner)
    match = branch.get_branch("match")
    clause = compile_clause(f"join.{name}.match", match, inner) if match else Clause("match", (), branch.spot.origin)
    own = {**constants, **words.all()}
    if on is None or any(finding.severity is Severity.ERROR for finding in scope.findings[known:]):
        return None
    pool = PartnerPool(inner.source, tuple(theirs for theirs, _ in on), clause, own, words.joins(), below, cared)
    join = Join(name, pool, tuple(ours for _, ours in on), branch.is_on("optional"), every)
    return CompiledJoin(join, inner, of_class)


def _tree(verb: str, branch: Branch, scope: Scope) -> Branch | None:
    """What is said of the partner: its source, and its words."""
    spot = branch.spot
    leaf = branch.get_leaf(verb)
    value = leaf.value if leaf else None
    let = branch.get_branch("let")
    own = Branch({"let": let} if let else {}, spot)
    match verb:
        case "source" if leaf is not None:
            return override(Branch({"source": leaf}, spot), own, scope.findings)
        case "dir":
            if isinstance(value, list) and any(map(is_below, value)):
                message = "what lies below a device or a relation is one pattern, not one of a list"
                scope.report(spot.get_child("dir").make_error("type", message, "make a join of each"))
                return None
            value = silent(value) if isinstance(value, str) else value
            return override(Branch({"source": Leaf({"dir": value}, spot)}, spot), own, scope.findings)
    here = spot.get_child(verb)
    library = scope.library
    if library is None:
        return None
    sentence = library.get_entry(str(value)) if verb == "resource" else library.find_class(str(value))
    if sentence is None:
        names = library.list_resources() if verb == "resource" else library.list_names()
        what = "no entry has this name" if verb == "resource" else "no device class has this name"
        code = "unknown-resource" if verb == "resource" else "unknown-class"
        shown = "device-agent class list shows them" if verb == "class" else "write the name of an entry"
        scope.report(here.make_error(code, what, make_hint(str(value), names) or shown, mark="text"))
        return None
    return _sentence(here, str(value), sentence, own, scope)


def _sentence(spot: FilePosition, name: str, sentence: MergedEntry, own: Branch, scope: Scope) -> Branch | None:
    """What a class, or an entry, says of its devices, with what the join says besides."""
    if name in scope.join_path:
        way = " → ".join((*scope.join_path[scope.join_path.index(name) :], name))
        scope.report(
            spot.make_error("cycle", f"{way}: each needs the other", "leave one of the joins out", mark="text")
        )
        return None
    said = {key: node for key, node in sentence.tree.members.items() if key in _OF_WORDS}
    return override(Branch(said, sentence.tree.spot, sentence.tree.place), own, scope.findings)


def equal_words(leaf: Leaf | None, scope: Scope, inner: Scope) -> list[tuple[PartnerKey, str]] | None:
    """Which words of the partner are equal to which of ours; all may be one's partner where nothing is said."""
    pairs: list[tuple[PartnerKey, str]] = []
    if leaf is None or not isinstance(leaf.value, dict):
        return pairs
    for theirs, ours in leaf.value.items():
        spot = leaf.spot.get_child(*([theirs] if "/" in theirs else theirs.split(".")))
        of_theirs = inner.find_word(spot, theirs, "key")
        of_ours = scope.find_word(spot, str(ours), "text")
        if of_theirs is None or of_ours is None:
            return None
        for word, known in ((theirs, of_theirs), (str(ours), of_ours)):
            if known.is_list:
                scope.report(spot.make_error("type", f"{word} is a list, and one value is wanted", "take another word"))
                return None
        if of_theirs.kind is not of_ours.kind and ANYTHING not in (of_theirs, of_ours):
            message = f"their {theirs} is {of_theirs.kind.value}, our {ours} is {of_ours.kind.value}: never equal"
            scope.report(spot.make_error("type", message, "take words of one type"))
            return None
        pairs.append((PartnerKey(theirs, of_theirs.kind), str(ours)))
    return pairs


def is_below_proc(source: Source | None) -> bool:
    """Whether it has devices that are no devices of sysfs."""
    return source is not None and source.kind == "dir" and all(text.startswith("/proc/") for text in source.arguments)
