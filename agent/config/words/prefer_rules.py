"""Preferences: the rules of `prefer`, and the `links` that define the distance of devices."""

from __future__ import annotations

from collections.abc import Mapping

from agent.config.language.key_table import make_hint
from agent.config.merge.config_tree import Branch, Leaf
from agent.config.scope import Scope, WordSignature
from agent.config.toml.file_position import FilePosition
from agent.config.words.entry_derived_words import EntryDerivedWords
from agent.config.words.join_compiler import compile_equal_words
from agent.config.words.let_map import compile_exact_key
from agent.config.words.word_path import compile_path
from agent.core.entry.joins import DerivedWord
from agent.core.entry.prefer import PCIE, Cost, DistanceRule, Links, PreferRule, Scores, WordRule
from agent.core.entry.resource_spec import Source
from agent.core.language.value import ValueType
from agent.core.struct import replace

_END, _SCORE = "end", "score"  # words of a line of a file


def compile_prefer(tree: Branch, scope: Scope, constants: Mapping[str, DerivedWord]) -> tuple[PreferRule, ...]:
    """Return the rules. The first has priority. Faults of rules and links are reported."""
    links: dict[str, Links | Scores | None] = {}
    for name, branch in tree.list_branches("links"):
        if name == PCIE:
            message = "pcie is how near functions are on PCI Express, which needs no links"
            scope.report_error(branch.spot, "type", message, "give the links another name", mark="key")
        links[name] = _compile_links(name, branch, scope, constants)
    leaf = tree.get_leaf("prefer")
    rules: list[PreferRule] = []
    for spot, item in leaf.spot.list_elements(leaf.value) if leaf else ():
        if not isinstance(item, dict):
            continue  # reported when it was read
        for verb, operand in item.items():
            rule = _compile_rule(spot.get_child(verb), verb, str(operand), links, scope)
            if rule is not None:
                rules.append(rule)
    return tuple(rules)


def _compile_rule(
    spot: FilePosition, verb: str, operand: str, links: Mapping[str, Links | Scores | None], scope: Scope
) -> PreferRule | None:
    if verb != "near":
        return None if scope.find_single_word(spot, operand) is None else WordRule(verb, operand)
    if operand == PCIE:
        return DistanceRule()
    if operand not in links:
        message = f"no links have the name {operand}"
        write = make_hint(operand, (PCIE, *links)) or 'write "pcie", or say in [links.NAME] where the links are'
        scope.report_error(spot, "unknown-word", message, write, mark="text")
        return None
    compiled_links = links[operand]
    return None if compiled_links is None else DistanceRule(compiled_links)


def _compile_links(
    name: str, branch: Branch, scope: Scope, constants: Mapping[str, DerivedWord]
) -> Links | Scores | None:
    """Return the links of a `[links.NAME]` table, or None. Faults are reported."""
    if not branch.verbs:
        message = f"links.{name} does not say where the links are"
        scope.report_error(branch.spot, "missing", message, 'write for example dir = "./links/*"', mark="key")
        return None
    pair_leaf = branch.get_leaf("on")
    if pair_leaf is None:
        message = f"links.{name} does not say what is at the other end"
        write = 'write on = { word of the link = "word of the device" }'
        scope.report_error(branch.spot, "missing", message, write, mark="key")
        return None
    return (_compile_directory_links if branch.verbs == ("dir",) else _compile_file_links)(
        name, branch, pair_leaf, scope, constants
    )


def _compile_directory_links(
    name: str, branch: Branch, pair_leaf: Leaf, scope: Scope, constants: Mapping[str, DerivedWord]
) -> Links | None:
    spot = branch.spot
    let, leaf = branch.get_branch("let"), branch.get_leaf("dir")
    link_scope = scope.enter_source(Source("dir"), is_single=False)
    words = EntryDerivedWords(Branch({"let": let} if let else {}, spot), link_scope, constants)
    link_scope = replace(link_scope, entry_words=words)
    word_path = compile_path(leaf.spot, str(leaf.value), scope) if leaf else None
    pairs = compile_equal_words(pair_leaf, scope, link_scope)
    cost = _compile_cost(name, branch, link_scope)
    derived_words = words.compile_all()
    if pairs is not None and len(pairs) != 1:
        scope.report_error(pair_leaf.spot, "type", "one word says what is at the other end of a link", "leave one pair")
        return None
    if cost is None or pairs is None or word_path is None:
        return None
    ((link_key, device_word),) = pairs
    return Links(name, word_path.path, derived_words, link_key.word, device_word, link_key.kind, cost)


def _compile_file_links(
    name: str, branch: Branch, pair_leaf: Leaf, scope: Scope, constants: Mapping[str, DerivedWord]
) -> Scores | None:
    del constants
    leaf, spot = branch.get_leaf("file"), branch.spot
    path = str(leaf.value) if leaf else ""
    if leaf is not None and (not path.startswith("/") or ".." in path.split("/") or "{" in path or "*" in path):
        message = "a file of scores is one file, by its whole path"
        scope.report_error(leaf.spot, "path", message, 'write for example "/etc/device-agent/nvlink"', mark="text")
        return None
    if branch.get_branch("let") is not None:
        scope.report_error(
            spot.get_child("let"), "type", "the words of a line are end and score", "take let out", mark="key"
        )
        return None
    pairs = pair_leaf.value if isinstance(pair_leaf.value, dict) else {}
    if [*pairs] != [_END]:
        message = "both ends of a line are named by the same word of their devices"
        scope.report_error(pair_leaf.spot, "unknown-word", message, 'write on = { end = "word of the device" }')
        return None
    device_word = pairs[_END]
    signature = scope.find_single_word(pair_leaf.spot.get_child(_END), str(device_word))
    if signature is None:
        return None
    if "cost" not in branch.members:
        return Scores(name, path, str(device_word), signature.kind)
    cost = _compile_cost(name, branch, scope, lines=True)
    return None if cost is None else Scores(name, path, str(device_word), signature.kind, cost)


def _compile_cost(name: str, branch: Branch, scope: Scope, *, lines: bool = False) -> Cost | None:
    """Return the cost of a link, or None. lines: the links are lines of a file, with only the words of a line."""
    leaf, table = branch.get_leaf("cost"), branch.get_branch("cost")
    if leaf is not None:
        return Cost(default=leaf.value) if isinstance(leaf.value, int) else None
    word_leaf = table.get_leaf("by") if table else None
    if table is None or word_leaf is None:
        message = f"links.{name} does not say how far the other end is"
        scope.report_error(branch.spot, "missing", message, 'write cost = 1, or cost = { by = "word", … }', mark="key")
        return None
    signature = _compile_cost_word(word_leaf, scope, lines=lines)
    default_leaf, keys = table.get_leaf("else"), table.get_branch("map")
    exact: dict[str, int] = {}
    for key, node in keys.members.items() if keys else ():
        spot = keys.spot.get_child(key) if keys else word_leaf.spot
        if not isinstance(node, Leaf) or not isinstance(node.value, int) or isinstance(node.value, bool):
            scope.report_error(spot, "type", "a cost is a whole number", "write it without quotes")
        elif signature is not None and (written := compile_exact_key(spot, key, signature.kind, scope)) is not None:
            exact[written] = node.value
    if signature is None:
        return None
    default = default_leaf.value if default_leaf is not None and isinstance(default_leaf.value, int) else None
    if not exact and default is None:
        message = f"links.{name}.cost says of nothing how far it is"
        scope.report_error(table.spot, "missing", message, 'write map = { "value" = 10 }, or else = 50', mark="key")
    return Cost(str(word_leaf.value), signature.kind, exact, default)


def _compile_cost_word(word_leaf: Leaf, scope: Scope, *, lines: bool) -> WordSignature | None:
    word = str(word_leaf.value)
    if lines and word != _SCORE:
        scope.report_error(
            word_leaf.spot, "unknown-word", f"a line has no word {word}", f'write "{_SCORE}"', mark="text"
        )
        return None
    return WordSignature(ValueType.TEXT) if lines else scope.find_single_word(word_leaf.spot, word)
