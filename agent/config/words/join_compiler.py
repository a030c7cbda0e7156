"""Joins (`join.NAME`), compiled to a partner pool and the words by which the partner is found."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from agent.config.clauses.clause import compile_clause
from agent.config.language.key_table import make_hint
from agent.config.merge.class_library import MergedEntry
from agent.config.merge.config_tree import Branch, Leaf, override
from agent.config.scope import ANYTHING, EntryWordScope, Scope
from agent.config.sources import compile_interval, compile_source, is_single
from agent.config.toml.file_position import FilePosition, TextPiece
from agent.config.toml.finding import Severity
from agent.config.values.program_args import compile_probes
from agent.config.words.class_options import compile_options
from agent.config.words.word_path import compile_path
from agent.core.entry.joins import DerivedWord, Join, PartnerKey, PartnerPool, RelativeDirectory
from agent.core.entry.resource_spec import Source
from agent.core.language import glob
from agent.core.language.clause import Clause
from agent.core.language.glob import PatternError
from agent.core.struct import Struct, replace

_CAPTURE = re.compile(r"\{[A-Za-z_][A-Za-z0-9_]*:[a-z]*\}")
_SLOT = re.compile(r"\{[^{}:]*\}")


def is_relative(path: object) -> bool:
    """Return whether a pattern is relative: below the device, or below the device of a relation."""
    return isinstance(path, str) and not path.startswith("/")


def mask_words(written: str) -> str:
    """Return a pattern of equal length with `?` for each word. Captures stay."""
    return _SLOT.sub(lambda match: "?" * len(match[0]), written) if is_relative(written) else written


def compile_relative_directory(spot: FilePosition, written: str, scope: Scope) -> RelativeDirectory | None:
    """Return the directory of a relative `dir`, or None. Faults are reported.

    In the path, `{word}` is replaced by a value, and `{word:type}` captures a value.
    """
    head, _, pattern = mask_words(written).partition("/")
    try:
        glob.parse(pattern, allow_captures=True)
    except PatternError as error:
        mark = TextPiece(len(head) + 1 + error.at, error.length)
        scope.report_error(spot, "glob", error.message, error.write, mark=mark)
        return None
    takes = glob.parse(_SLOT.sub("*", written.partition("/")[2]), allow_captures=True)
    word_path = compile_path(spot, _CAPTURE.sub("*", written), scope)
    return None if word_path is None else RelativeDirectory(word_path.path, takes)


# Keys of a class that a join uses.
_CLASS_KEYS = frozenset(("source", "let", "join", "options", "probe", "health", "wait", "gate", "give"))
_WRITE = 'write for example source = "pci"'


class Partner(Struct):
    """How the words of a partner are compiled, and whether its health is used."""

    make_scope: Callable[[Branch, Scope, Mapping[str, DerivedWord]], EntryWordScope]
    needs_health: bool


class CompiledJoin(Struct):
    """A join, and the scope of the words of its partner."""

    join: Join
    scope: Scope
    has_health_words: bool  # the partner is of a class, so it has the words `healthy` and `reason`


def compile_join(
    name: str, branch: Branch, scope: Scope, constants: Mapping[str, DerivedWord], partner: Partner
) -> CompiledJoin | None:
    """Return the join of a `join.NAME` table, or None. Faults are reported."""
    if not branch.verbs:
        scope.report_error(branch.spot, "missing", f"join.{name} does not say where to look", _WRITE, mark="key")
        return None
    (verb,) = branch.verbs
    tree = _build_tree(verb, branch, scope)
    if tree is None:
        return None
    leaf = tree.get_leaf("source")
    if leaf is None:
        scope.report_error(branch.spot.get_child(verb), "missing", "it has no source, so nothing is looked at", _WRITE)
        return None
    finding_count = len(scope.findings)
    directory_leaf = branch.get_leaf("dir")
    below: RelativeDirectory | None = None
    if directory_leaf is not None and is_relative(directory_leaf.value):
        below = compile_relative_directory(branch.spot.get_child("dir"), str(directory_leaf.value), scope)
        source = Source("dir", (str(directory_leaf.value),)) if below else None
    else:
        source = compile_source(leaf, scope)
    if source is None:
        return None
    partner_scope = replace(
        scope.enter_source(source, is_single=below is None and is_single(source)),
        has_all_keys=True,
        has_all_words=True,
    )
    of_class = verb in {"class", "resource"}
    if of_class:
        options = compile_options(tree, partner_scope, None)
        constants = options.constants
        class_leaf = branch.get_leaf(verb)
        join_path = (*scope.join_path, str(class_leaf.value) if class_leaf else "")
        partner_scope = replace(options.extend_scope(partner_scope), join_path=join_path)
    partner_scope = replace(partner_scope, probes=compile_probes(tree, partner_scope, scope.probes))
    words = partner.make_scope(tree, partner_scope, constants)
    partner_scope = replace(partner_scope, entry_words=words)
    interval = compile_interval(tree, partner_scope)
    compile_health = scope.compile_partner_checks if of_class and partner.needs_health else None
    partner_checks = (
        compile_health(partner_scope.join_path[-1], tree, partner_scope, interval) if compile_health else None
    )
    word_pairs = compile_equal_words(branch.get_leaf("on"), scope, partner_scope)
    match = branch.get_branch("match")
    clause = (
        compile_clause(f"join.{name}.match", match, partner_scope) if match else Clause("match", (), branch.spot.origin)
    )
    derived_words = {**constants, **words.compile_all()}
    if word_pairs is None or any(finding.severity is Severity.ERROR for finding in scope.findings[finding_count:]):
        return None
    pool = PartnerPool(
        source,
        tuple(partner_key for partner_key, _ in word_pairs),
        clause,
        derived_words,
        words.list_joins(),
        below,
        partner_checks,
    )
    join = Join(name, pool, tuple(device_word for _, device_word in word_pairs), branch.is_on("optional"), interval)
    return CompiledJoin(join, partner_scope, of_class)


def _build_tree(verb: str, branch: Branch, scope: Scope) -> Branch | None:
    """Return the configuration tree of the partner: its source and its words."""
    spot = branch.spot
    leaf = branch.get_leaf(verb)
    value = leaf.value if leaf else None
    let = branch.get_branch("let")
    join_tree = Branch({"let": let} if let else {}, spot)
    match verb:
        case "source" if leaf is not None:
            return override(Branch({"source": leaf}, spot), join_tree, scope.findings)
        case "dir":
            if isinstance(value, list) and any(map(is_relative, value)):
                message = "what lies below a device or a relation is one pattern, not one of a list"
                scope.report_error(spot.get_child("dir"), "type", message, "make a join of each")
                return None
            value = mask_words(value) if isinstance(value, str) else value
            return override(Branch({"source": Leaf({"dir": value}, spot)}, spot), join_tree, scope.findings)
    value_spot = spot.get_child(verb)
    library = scope.library
    if library is None:
        return None
    sentence = library.get_entry(str(value)) if verb == "resource" else library.find_class(str(value))
    if sentence is None:
        names = library.list_resources() if verb == "resource" else library.list_names()
        fault = "no entry has this name" if verb == "resource" else "no device class has this name"
        code = "unknown-resource" if verb == "resource" else "unknown-class"
        shown = "device-agent class list shows them" if verb == "class" else "write the name of an entry"
        scope.report_error(value_spot, code, fault, make_hint(str(value), names) or shown, mark="text")
        return None
    return _merge_class(value_spot, str(value), sentence, join_tree, scope)


def _merge_class(
    spot: FilePosition, name: str, sentence: MergedEntry, join_tree: Branch, scope: Scope
) -> Branch | None:
    """Return the tree of a class or an entry, with the additions of the join."""
    if name in scope.join_path:
        cycle = " → ".join((*scope.join_path[scope.join_path.index(name) :], name))
        scope.report_error(spot, "cycle", f"{cycle}: each needs the other", "leave one of the joins out", mark="text")
        return None
    members = {key: node for key, node in sentence.tree.members.items() if key in _CLASS_KEYS}
    return override(Branch(members, sentence.tree.spot, sentence.tree.place), join_tree, scope.findings)


def compile_equal_words(leaf: Leaf | None, scope: Scope, partner_scope: Scope) -> list[tuple[PartnerKey, str]] | None:
    """Return the pairs of equal words of partner and device. Without pairs, each device of the pool can be the
    partner.
    """
    pairs: list[tuple[PartnerKey, str]] = []
    if leaf is None or not isinstance(leaf.value, dict):
        return pairs
    for partner_word, device_word in leaf.value.items():
        spot = leaf.spot.get_child(*([partner_word] if "/" in partner_word else partner_word.split(".")))
        partner_signature = partner_scope.find_word(spot, partner_word, "key")
        device_signature = scope.find_word(spot, str(device_word), "text")
        if partner_signature is None or device_signature is None:
            return None
        for word, signature in ((partner_word, partner_signature), (str(device_word), device_signature)):
            if signature.is_list:
                scope.report_error(spot, "type", f"{word} is a list, and one value is wanted", "take another word")
                return None
        if partner_signature.kind is not device_signature.kind and ANYTHING not in (
            partner_signature,
            device_signature,
        ):
            partner_type, device_type = partner_signature.kind.value, device_signature.kind.value
            message = f"their {partner_word} is {partner_type}, our {device_word} is {device_type}: never equal"
            scope.report_error(spot, "type", message, "take words of one type")
            return None
        pairs.append((PartnerKey(partner_word, partner_signature.kind), str(device_word)))
    return pairs


def is_below_proc(source: Source | None) -> bool:
    """Return whether the devices of a source are below /proc, not in sysfs."""
    return source is not None and source.kind == "dir" and all(text.startswith("/proc/") for text in source.arguments)
