"""`prefer` and `links`: by which rules devices are chosen, and what brings them near to each other."""

from __future__ import annotations

from collections.abc import Mapping

from agent.config.language.key_table import make_hint
from agent.config.merge.config_tree import Branch, Leaf
from agent.config.scope import ANYTHING, Scope, WordSignature
from agent.config.toml.file_position import FilePosition
from agent.config.words.entry_derived_words import EntryDerivedWords
from agent.config.words.join_compiler import equal_words
from agent.config.words.word_path import compile_path
from agent.core.entry.derived_words import canonicalize
from agent.core.entry.joins import DerivedWord
from agent.core.entry.prefer import PCIE, Cost, DistanceRule, Links, PreferRule, Scores, WordRule
from agent.core.entry.resource_spec import Source
from agent.core.language.value import OperandError, ValueType, parse_kernel_text, parse_operand
from agent.core.struct import replace

_END, _SCORE = "end", "score"  # the words of a line of a file


def compile_prefer(tree: Branch, scope: Scope, constants: Mapping[str, DerivedWord]) -> tuple[PreferRule, ...]:
    """The rules, the first first; everything wrong with them and with the links is reported."""
    links: dict[str, Links | Scores | None] = {}
    named = tree.get_branch("links")
    for name, branch in named.list_branches() if named else ():
        if name == PCIE:
            message = "pcie is how near functions are on PCI Express, which needs no links"
            scope.report(branch.spot.make_error("type", message, "give the links another name", mark="key"))
        links[name] = _links(name, branch, scope, constants)
    leaf = tree.get_leaf("prefer")
    rules: list[PreferRule] = []
    for spot, item in leaf.spot.list_elements(leaf.value) if leaf else ():
        if not isinstance(item, dict):
            continue  # reported where it was read
        for verb, said in item.items():
            rule = _rule(spot.get_child(verb), verb, str(said), links, scope)
            if rule is not None:
                rules.append(rule)
    return tuple(rules)


def _rule(
    spot: FilePosition, verb: str, said: str, links: Mapping[str, Links | Scores | None], scope: Scope
) -> PreferRule | None:
    if verb != "near":
        known = scope.find_word(spot, said, "text")
        if known is None:
            return None
        if known.is_list:
            message = f"{said} is a list, and one value is wanted"
            scope.report(spot.make_error("type", message, "take another word", mark="text"))
        return WordRule(verb, said)
    if said == PCIE:
        return DistanceRule()
    if said not in links:
        message = f"no links have the name {said}"
        write = make_hint(said, (PCIE, *links)) or 'write "pcie", or say in [links.NAME] where the links are'
        scope.report(spot.make_error("unknown-word", message, write, mark="text"))
        return None
    made = links[said]
    return None if made is None else DistanceRule(made)


def _links(name: str, branch: Branch, scope: Scope, constants: Mapping[str, DerivedWord]) -> Links | Scores | None:
    """What `[links.NAME]` is; none, with findings, if something is wrong with it."""
    if not branch.verbs:
        message = f"links.{name} does not say where the links are"
        scope.report(branch.spot.make_error("missing", message, 'write for example dir = "./links/*"', mark="key"))
        return None
    on = branch.get_leaf("on")
    if on is None:
        message = f"links.{name} does not say what is at the other end"
        write = 'write on = { word of the link = "word of the device" }'
        scope.report(branch.spot.make_error("missing", message, write, mark="key"))
        return None
    return (_of_directories if branch.verbs == ("dir",) else _of_lines)(name, branch, on, scope, constants)


def _of_directories(
    name: str, branch: Branch, on: Leaf, scope: Scope, constants: Mapping[str, DerivedWord]
) -> Links | None:
    spot = branch.spot
    let, leaf = branch.get_branch("let"), branch.get_leaf("dir")
    inner = replace(
        scope,
        source=Source("dir"),
        node_words={},
        table="",
        entry_words=None,
        is_grouped=False,
        member_names=set(),
        is_before_grouping=False,
        is_single=False,
    )
    words = inner.entry_words = EntryDerivedWords(Branch({"let": let} if let else {}, spot), inner, constants)
    reading = compile_path(leaf.spot, str(leaf.value), scope) if leaf else None
    pairs = equal_words(on, scope, inner)
    cost = _cost(name, branch, inner)
    own = words.all()
    if pairs is not None and len(pairs) != 1:
        scope.report(on.spot.make_error("type", "one word says what is at the other end of a link", "leave one pair"))
        return None
    if cost is None or pairs is None or reading is None:
        return None
    ((theirs, ours),) = pairs
    return Links(name, reading.path, own, theirs.word, ours, theirs.kind, cost)


def _of_lines(name: str, branch: Branch, on: Leaf, scope: Scope, constants: Mapping[str, DerivedWord]) -> Scores | None:
    del constants
    leaf, spot = branch.get_leaf("file"), branch.spot
    path = str(leaf.value) if leaf else ""
    if leaf is not None and (not path.startswith("/") or ".." in path.split("/") or "{" in path or "*" in path):
        message = "a file of scores is one file, by its whole path"
        scope.report(leaf.spot.make_error("path", message, 'write for example "/etc/device-agent/nvlink"', mark="text"))
        return None
    if branch.get_branch("let") is not None:
        scope.report(
            spot.get_child("let").make_error(
                "type", "the words of a line are end and score", "take let out", mark="key"
            )
        )
        return None
    pairs = on.value if isinstance(on.value, dict) else {}
    if [*pairs] != [_END]:
        message = "both ends of a line are named by the same word of their devices"
        scope.report(on.spot.make_error("unknown-word", message, 'write on = { end = "word of the device" }'))
        return None
    ours = pairs[_END]
    known = scope.find_word(on.spot.get_child(_END), str(ours), "text")
    if known is None or known.is_list:
        if known is not None:
            message = f"{ours} is a list, and one value is wanted"
            scope.report(on.spot.get_child(_END).make_error("type", message, "take another word", mark="text"))
        return None
    if "cost" not in branch.members:
        return Scores(name, path, str(ours), known.kind)
    cost = _cost(name, branch, scope, lines=True)
    return None if cost is None else Scores(name, path, str(ours), known.kind, cost)


def _cost(name: str, branch: Branch, scope: Scope, *, lines: bool = False) -> Cost | None:
    """How far the other end is, in the scope of the words of a link. lines: these are the words of a line."""
    leaf, table = branch.get_leaf("cost"), branch.get_branch("cost")
    if leaf is not None:
        return Cost(default=leaf.value) if isinstance(leaf.value, int) else None
    by = table.get_leaf("by") if table else None
    if table is None or by is None:
        message = f"links.{name} does not say how far the other end is"
        scope.report(
            branch.spot.make_error("missing", message, 'write cost = 1, or cost = { by = "word", … }', mark="key")
        )
        return None
    known = _by(by, scope, lines=lines)
    otherwise, keys = table.get_leaf("else"), table.get_branch("map")
    exact: dict[str, int] = {}
    for key, node in keys.members.items() if keys else ():
        spot = keys.spot.get_child(key) if keys else by.spot
        if not isinstance(node, Leaf) or not isinstance(node.value, int) or isinstance(node.value, bool):
            scope.report(spot.make_error("type", "a cost is a whole number", "write it without quotes"))
        elif known is not None and (written := _key(spot, key, known.kind, scope)) is not None:
            exact[written] = node.value
    if known is None:
        return None
    other = otherwise.value if otherwise is not None and isinstance(otherwise.value, int) else None
    if not exact and other is None:
        message = f"links.{name}.cost says of nothing how far it is"
        scope.report(
            table.spot.make_error("missing", message, 'write map = { "value" = 10 }, or else = 50', mark="key")
        )
    return Cost(str(by.value), known.kind, exact, other)


def _by(by: Leaf, scope: Scope, *, lines: bool) -> WordSignature | None:
    word = str(by.value)
    if lines and word != _SCORE:
        scope.report(by.spot.make_error("unknown-word", f"a line has no word {word}", f'write "{_SCORE}"', mark="text"))
        return None
    known = WordSignature(ValueType.TEXT) if lines else scope.find_word(by.spot, word, "text")
    if known is not None and known is not ANYTHING and known.is_list:
        scope.report(
            by.spot.make_error(
                "type", f"{word} is a list, and one value is wanted", "take a word that says one thing", mark="text"
            )
        )
        return None
    return known


def _key(spot: FilePosition, key: str, kind: ValueType, scope: Scope) -> str | None:
    """A key of the map in the form in which the word is looked up."""
    if kind in {ValueType.INT, ValueType.BOOL}:
        value = parse_kernel_text(kind, key)
        if isinstance(value, (int, bool)):
            return canonicalize(kind, value)
        scope.report(
            spot.make_error(
                "type", f"the word is {kind.value}, and this key is none", 'write for example "1"', mark="key"
            )
        )
        return None
    try:
        return canonicalize(kind, parse_operand(kind, key))
    except OperandError as error:
        scope.report(spot.make_error("type", error.message, error.write, mark="key"))
        return None
