"""Derived words of `let`: each verb is compiled to a word."""

from __future__ import annotations

from collections.abc import Mapping

from agent.config.merge.config_tree import Branch, Conflict, Leaf
from agent.config.scope import CompiledWord, Scope
from agent.config.values.constants import parse_constant
from agent.config.words.let_verbs import VERBS
from agent.core.entry.derived_words import DefaultedWord
from agent.core.language.value import Value

# Extra keys of each verb. `else` is allowed with any verb.
_EXTRA_KEYS: Mapping[str, frozenset[str]] = {
    **dict.fromkeys(("read", "first_of", "read_all", "names_of", "name_of", "text"), frozenset({"type"})),
    "field": frozenset({"of", "type"}),
    "take": frozenset({"of"}),
    "by": frozenset({"map", "type", "if_absent"}),
    "bits": frozenset({"of"}),
    "place_in": frozenset({"of"}),
    "probe": frozenset({"field", "type"}),
}


def compile_let(name: str, branch: Branch, scope: Scope) -> CompiledWord | None:
    """Return the derived word of `let.NAME`, or None. Faults are reported."""
    if not branch.verbs:
        message = f"let.{name} does not say where it comes from"
        scope.report_error(branch.spot, "missing", message, f'write {name} = "./file"', mark="key")
        return None
    if len(branch.verbs) > 1:
        return None  # several verbs were reported when they were read
    (verb,) = branch.verbs
    faults = [
        node.spot.make_error("type", f"{key} does not go with {verb}", _format_verbs(key), mark="key")
        for key, node in branch.members.items()
        if not isinstance(node, Conflict) and key not in {verb, "else"} | _EXTRA_KEYS.get(verb, frozenset())
    ]
    scope.findings.extend(faults)
    if faults:
        return None
    verb_node = branch.members[verb]
    compiled_word = VERBS[verb](name, verb_node, branch, scope)
    if compiled_word is None or verb == "by":
        return compiled_word
    return _add_default(compiled_word, branch.get_leaf("else"), scope)


def _add_default(compiled_word: CompiledWord, leaf: Leaf | None, scope: Scope) -> CompiledWord | None:
    """Return the word with its default (`else`), or None. A wrong default is reported."""
    if leaf is None:
        return compiled_word
    value: Value | None
    if compiled_word.signature.is_list:
        items = leaf.value if isinstance(leaf.value, list) else None
        if items is None:
            scope.report_error(
                leaf.spot, "type", "the word is a list, so else is one", f"write [{leaf.spot.source_text}]"
            )
            return None
        values = [
            parse_constant(leaf.spot.get_child(n), item, compiled_word.signature.kind, scope)
            for n, item in enumerate(items)
        ]
        value = tuple(item for item in values if item is not None)
        if len(value) < len(values):
            return None
    else:
        value = parse_constant(leaf.spot, leaf.value, compiled_word.signature.kind, scope)
    return (
        None
        if value is None
        else CompiledWord(compiled_word.signature, DefaultedWord(compiled_word.derived_word, value))
    )


def _format_verbs(key: str) -> str:
    verbs = [verb for verb, keys in _EXTRA_KEYS.items() if key in keys]
    return f"{key} goes with {', '.join(verbs)}" if verbs else ""
