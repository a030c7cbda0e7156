"""Derived words of `let`: each verb, compiled to a word."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from agent.config.clauses.clause import compile_clause
from agent.config.merge.config_tree import Branch, Conflict, Leaf
from agent.config.scope import ANYTHING, CompiledWord, Scope, WordSignature, require_all
from agent.config.values.templates import compile_template
from agent.config.words.let_map import compile_map, parse_constant
from agent.config.words.word_path import compile_operand, compile_operands, compile_path, is_path, require_single_value
from agent.core.entry.derived_words import (
    Base64Url,
    Bits,
    ClauseWord,
    DefaultedWord,
    ExtractedText,
    FirstPresent,
    KfdAddress,
    ProbeWord,
    RankWord,
    TemplateWord,
)
from agent.core.entry.file_words import FileField, FileName, FileNames, FilePath, FileTexts
from agent.core.entry.joins import DerivedWord
from agent.core.language import glob
from agent.core.language.value import Value, ValueType
from agent.core.struct import replace

_BITS = 64  # width of a kernel number


def get_type(branch: Branch) -> ValueType | None:
    """Return the type that `type` names, or None."""
    leaf = branch.get_leaf("type")
    return ValueType(leaf.value) if leaf else None


def _compile_read(name: str, leaf: Leaf, branch: Branch, scope: Scope) -> CompiledWord | None:
    del name
    return compile_operand(leaf.spot, leaf.value, get_type(branch), scope)


def _compile_alternatives(name: str, leaf: Leaf, branch: Branch, scope: Scope) -> CompiledWord | None:
    kind = get_type(branch)
    words = compile_operands(leaf, kind, scope)
    if words is None:
        return None
    kinds = {(word.signature.kind, word.signature.is_list): word for word in words if word.signature is not ANYTHING}
    if len(kinds) > 1:
        type_texts = " and ".join(f"{'a list of ' if is_list else ''}{kind.value}" for kind, is_list in kinds)
        message = f"{name} would be {type_texts}, whichever is there first"
        write = 'add type = "…"' if len({kind for kind, _ in kinds}) > 1 else ""
        scope.report_error(leaf.spot, "type", message, write)
        return None
    signature = next(iter(kinds.values())).signature if kinds else ANYTHING
    if signature is not ANYTHING:
        signature = replace(signature, varies=any(word.signature.varies for word in words))
    return CompiledWord(signature, FirstPresent(tuple(word.derived_word for word in words)))


def _make_path_verb(
    make: Callable[..., DerivedWord], *, is_list: bool
) -> Callable[[str, Leaf, Branch, Scope], CompiledWord | None]:
    """Return a compiler of a verb whose operand is a path."""

    def compile_files(name: str, leaf: Leaf, branch: Branch, scope: Scope) -> CompiledWord | None:
        kind = get_type(branch) or ValueType.TEXT
        path = leaf.value
        if not isinstance(path, str) or not is_path(path):
            scope.report_error(leaf.spot, "type", f"let.{name} wants a path", 'write for example "./file*"')
            return None
        word_path = compile_path(leaf.spot, path, scope)
        return (
            None
            if word_path is None
            else CompiledWord(WordSignature(kind, is_list, word_path.varies), make(word_path.path, kind))
        )

    return compile_files


def _compile_field(name: str, leaf: Leaf, branch: Branch, scope: Scope) -> CompiledWord | None:
    source_leaf = _get_source(name, branch, scope)
    if source_leaf is None or not isinstance(leaf.value, str) or not leaf.value.strip():
        return None

    def make(path: FilePath, kind: ValueType) -> DerivedWord:
        return FileField(str(leaf.value).strip(), path, kind)

    return _make_path_verb(make, is_list=False)(name, source_leaf, branch, scope)


def _compile_take(name: str, leaf: Leaf, branch: Branch, scope: Scope) -> CompiledWord | None:
    source_leaf = _get_source(name, branch, scope)
    if source_leaf is None:
        return None
    pattern = scope.parse_text(leaf.spot, "glob", lambda: glob.parse(str(leaf.value), allow_captures=True))
    if pattern is None:
        return None
    if len(pattern.captures) != 1 or pattern.captures[0].word != name:
        message = f"what is taken for let.{name} stands in braces with its name, once"
        scope.report_error(leaf.spot, "type", message, f"write {{{name}:text}} at its place", mark="text")
        return None
    source = compile_operand(source_leaf.spot, source_leaf.value, None, scope)
    if source is None or not require_single_value(source_leaf, source, scope):
        return None
    return CompiledWord(
        WordSignature(pattern.captures[0].kind, varies=source.signature.varies),
        ExtractedText(pattern, source.derived_word),
    )


def _compile_text(name: str, leaf: Leaf, branch: Branch, scope: Scope) -> CompiledWord | None:
    del name
    template = compile_template(leaf.spot, leaf.value, scope, "a word's text")
    if template is None:
        return None
    kind = get_type(branch) or ValueType.TEXT
    return CompiledWord(
        WordSignature(kind, template.is_list, template.varies), TemplateWord(template.template, kind, template.is_list)
    )


def _compile_holds(name: str, clause_branch: Branch, branch: Branch, scope: Scope) -> CompiledWord | None:
    del branch
    finding_count = len(scope.findings)
    clause = compile_clause(f"let.{name}.holds", clause_branch, scope)
    if len(scope.findings) > finding_count and len(clause.lines) < len(clause_branch.members):
        return None
    return CompiledWord(WordSignature(ValueType.BOOL, varies=scope.has_several_devices), ClauseWord(clause))


def _compile_kfd_address(name: str, leaf: Leaf, branch: Branch, scope: Scope) -> CompiledWord | None:
    del branch
    words = compile_operands(leaf, None, scope)
    if words is None:
        return None
    if len(words) != 2 or any(
        word.signature is not ANYTHING and word.signature.kind is not ValueType.INT for word in words
    ):
        message = f"let.{name} wants two words that are int: the domain and the location"
        scope.report_error(leaf.spot, "type", message, 'write for example ["domain", "location_id"]')
        return None
    return CompiledWord(
        WordSignature(ValueType.PCI, varies=any(word.signature.varies for word in words)),
        KfdAddress(words[0].derived_word, words[1].derived_word),
    )


def _compile_bits(name: str, leaf: Leaf, branch: Branch, scope: Scope) -> CompiledWord | None:
    source_leaf = _get_source(name, branch, scope)
    if source_leaf is None:
        return None
    items = leaf.value if isinstance(leaf.value, list) else [leaf.value]
    ranges = [_parse_range(str(item)) for item in items]
    if not ranges or None in ranges:
        message = f"bits are counted from 0 to {_BITS - 1}, and a range is lowest-highest"
        scope.report_error(leaf.spot, "type", message, 'write for example ["28-31", "0-2"]')
        return None
    source = compile_operand(source_leaf.spot, source_leaf.value, None, scope)
    if source is None:
        return None
    if source.signature is not ANYTHING and (source.signature.is_list or source.signature.kind is not ValueType.INT):
        scope.report_error(
            source_leaf.spot, "type", "bits are those of an int", 'make it a word with type = "int"', mark="text"
        )
        return None
    bit_ranges = tuple(bit_range for bit_range in ranges if bit_range is not None)
    return CompiledWord(
        WordSignature(ValueType.INT, varies=source.signature.varies), Bits(bit_ranges, source.derived_word)
    )


def _compile_rank(name: str, leaf: Leaf, branch: Branch, scope: Scope) -> CompiledWord | None:
    source_leaf = _get_source(name, branch, scope)
    if source_leaf is None:
        return None
    list_word, element_word = (
        compile_operand(leaf.spot, leaf.value, None, scope),
        compile_operand(source_leaf.spot, source_leaf.value, None, scope),
    )
    if list_word is None or element_word is None or not require_single_value(source_leaf, element_word, scope):
        return None
    if list_word.signature is not ANYTHING and not list_word.signature.is_list:
        message = f"let.{name} wants a list, and this is one value"
        scope.report_error(
            leaf.spot, "type", message, 'write for example a word that is names_of = "PATH*"', mark="text"
        )
        return None
    kinds = [word.signature.kind for word in (list_word, element_word) if word.signature is not ANYTHING]
    if len(set(kinds)) > 1:
        message = (
            f"the list is of {kinds[0].value}, and {source_leaf.value} is {kinds[1].value}: none of it can be in there"
        )
        scope.report_error(source_leaf.spot, "type", message, f'add type = "{kinds[1].value}" to the list', mark="text")
        return None
    kind = kinds[0] if kinds else ValueType.TEXT
    varies = element_word.signature.varies or list_word.signature.varies
    return CompiledWord(
        WordSignature(ValueType.INT, varies=varies), RankWord(list_word.derived_word, element_word.derived_word, kind)
    )


def _compile_base64url(name: str, leaf: Leaf, branch: Branch, scope: Scope) -> CompiledWord | None:
    del name, branch
    words = compile_operands(leaf, None, scope)
    if words is None or not all(require_single_value(leaf, word, scope) for word in words):
        return None
    return CompiledWord(
        WordSignature(ValueType.TEXT, varies=any(word.signature.varies for word in words)),
        Base64Url(tuple(o.derived_word for o in words)),
    )


def _compile_by(name: str, leaf: Leaf, branch: Branch, scope: Scope) -> CompiledWord | None:
    source = compile_operand(leaf.spot, leaf.value, None, scope)
    if source is None or not require_single_value(leaf, source, scope):
        return None
    return compile_map(name, source, branch, get_type(branch) or ValueType.TEXT, scope)


def _compile_probe(name: str, leaf: Leaf, branch: Branch, scope: Scope) -> CompiledWord | None:
    probe = scope.find_probe(leaf.spot, leaf.value)
    field = branch.get_leaf("field")
    if field is None:
        message = f"let.{name} does not say which field of the probe"
        scope.report_error(branch.spot, "missing", message, 'write field = "…"', mark="key")
    if probe is None or field is None:
        return None
    kind = get_type(branch) or ValueType.TEXT
    return CompiledWord(
        WordSignature(kind, varies=scope.has_several_devices),
        ProbeWord(probe, str(field.value), kind),
    )


def _get_source(name: str, branch: Branch, scope: Scope) -> Leaf | None:
    """Return the value of `of`, or None. A missing `of` is reported."""
    source_leaf = branch.get_leaf("of")
    if source_leaf is None:
        message = f"let.{name} does not say of what"
        scope.report_error(branch.spot, "missing", message, 'write of = "…"', mark="key")
    return source_leaf


def _parse_range(text: str) -> tuple[int, int] | None:
    low, dash, high = text.partition("-")
    if not low.isdecimal() or not (high.isdecimal() if dash else not high):
        return None
    lowest, highest = int(low), int(high or low)
    return (lowest, highest) if lowest <= highest < _BITS else None


VERBS: Mapping[str, Callable[..., CompiledWord | None]] = {
    "read": _compile_read,
    "first_of": _compile_alternatives,
    "read_all": _make_path_verb(FileTexts, is_list=True),
    "names_of": _make_path_verb(FileNames, is_list=True),
    "name_of": _make_path_verb(FileName, is_list=False),
    "field": _compile_field,
    "take": _compile_take,
    "by": _compile_by,
    "text": _compile_text,
    "holds": _compile_holds,
    "kfd_address": _compile_kfd_address,
    "bits": _compile_bits,
    "base64url": _compile_base64url,
    "place_in": _compile_rank,
    "probe": _compile_probe,
}


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
        kind = compiled_word.signature.kind
        value = require_all([parse_constant(spot, item, kind, scope) for spot, item in leaf.spot.list_elements(items)])
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
