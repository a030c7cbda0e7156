"""The verbs of `let`: each as an own word."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from agent.config.clauses.clause import compile_clause
from agent.config.merge.config_tree import Branch, Leaf
from agent.config.scope import ANYTHING, CompiledWord, Scope, WordSignature
from agent.config.toml.file_position import TextPiece
from agent.config.values.templates import compile_template
from agent.config.words.let_map import compile_by
from agent.config.words.word_path import compile_operand, compile_operands, compile_path, is_path, is_single
from agent.core.entry.derived_words import (
    Base64Url,
    Bits,
    ClauseWord,
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
from agent.core.language.value import ValueType
from agent.core.struct import replace

_BITS = 64  # of a number that the kernel says


def kind_of(branch: Branch) -> ValueType | None:
    """What `type` says."""
    leaf = branch.get_leaf("type")
    return ValueType(leaf.value) if leaf else None


def _read(name: str, said: Leaf, branch: Branch, scope: Scope) -> CompiledWord | None:
    del name
    return compile_operand(said.spot, said.value, kind_of(branch), scope)


def _first_of(name: str, said: Leaf, branch: Branch, scope: Scope) -> CompiledWord | None:
    kind = kind_of(branch)
    found = list(compile_operands(said, kind, scope))
    made = [one for one in found if one is not None]
    if len(made) < len(found) or not made:
        return None
    kinds = {(one.signature.kind, one.signature.is_list): one for one in made if one.signature is not ANYTHING}
    if len(kinds) > 1:
        what = " and ".join(f"{'a list of ' if many else ''}{kind.value}" for kind, many in kinds)
        message = f"{name} would be {what}, whichever is there first"
        write = 'add type = "…"' if len({kind for kind, _ in kinds}) > 1 else ""
        scope.report(said.spot.make_error("type", message, write))
        return None
    known = next(iter(kinds.values())).signature if kinds else ANYTHING
    if known is not ANYTHING:
        known = replace(known, varies=any(one.signature.varies for one in made))
    return CompiledWord(known, FirstPresent(tuple(one.derived_word for one in made)))


def _files(
    make: Callable[..., DerivedWord], *, many: bool
) -> Callable[[str, Leaf, Branch, Scope], CompiledWord | None]:
    """A verb whose operand is a path."""

    def compile_files(name: str, said: Leaf, branch: Branch, scope: Scope) -> CompiledWord | None:
        kind = kind_of(branch) or ValueType.TEXT
        path = said.value
        if not isinstance(path, str) or not is_path(path):
            scope.report(said.spot.make_error("type", f"let.{name} wants a path", 'write for example "./file*"'))
            return None
        found = compile_path(said.spot, path, scope)
        return None if found is None else CompiledWord(WordSignature(kind, many, found.varies), make(found.path, kind))

    return compile_files


def _field(name: str, said: Leaf, branch: Branch, scope: Scope) -> CompiledWord | None:
    of = _of(name, branch, scope)
    if of is None or not isinstance(said.value, str) or not said.value.strip():
        return None

    def make(path: FilePath, kind: ValueType) -> DerivedWord:
        return FileField(str(said.value).strip(), path, kind)

    return _files(make, many=False)(name, of, branch, scope)


def _take(name: str, said: Leaf, branch: Branch, scope: Scope) -> CompiledWord | None:
    of = _of(name, branch, scope)
    if of is None:
        return None
    try:
        made = glob.parse(str(said.value), allow_captures=True)
    except glob.PatternError as error:
        scope.report(said.spot.make_error("glob", error.message, error.write, mark=TextPiece(error.at, error.length)))
        return None
    if len(made.captures) != 1 or made.captures[0].word != name:
        message = f"what is taken for let.{name} stands in braces with its name, once"
        scope.report(said.spot.make_error("type", message, f"write {{{name}:text}} at its place", mark="text"))
        return None
    source = compile_operand(of.spot, of.value, None, scope)
    if source is None or not is_single(of, source, scope):
        return None
    return CompiledWord(
        WordSignature(made.captures[0].kind, varies=source.signature.varies), ExtractedText(made, source.derived_word)
    )


def _text(name: str, said: Leaf, branch: Branch, scope: Scope) -> CompiledWord | None:
    del name
    made = compile_template(said.spot, said.value, scope, "a word's text")
    if made is None:
        return None
    kind = kind_of(branch) or ValueType.TEXT
    return CompiledWord(WordSignature(kind, made.is_list, made.varies), TemplateWord(made.template, kind, made.is_list))


def _holds(name: str, said: Branch, branch: Branch, scope: Scope) -> CompiledWord | None:
    del branch
    before = len(scope.findings)
    clause = compile_clause(f"let.{name}.holds", said, scope)
    if len(scope.findings) > before and len(clause.lines) < len(said.members):
        return None
    return CompiledWord(
        WordSignature(ValueType.BOOL, varies=not (scope.is_single or scope.has_one_per_container)), ClauseWord(clause)
    )


def _kfd_address(name: str, said: Leaf, branch: Branch, scope: Scope) -> CompiledWord | None:
    del branch
    found = list(compile_operands(said, None, scope))
    made = [one for one in found if one is not None]
    if len(made) < len(found):
        return None
    if len(made) != 2 or any(one.signature is not ANYTHING and one.signature.kind is not ValueType.INT for one in made):
        message = f"let.{name} wants two words that are int: the domain and the location"
        scope.report(said.spot.make_error("type", message, 'write for example ["domain", "location_id"]'))
        return None
    return CompiledWord(
        WordSignature(ValueType.PCI, varies=any(one.signature.varies for one in made)),
        KfdAddress(made[0].derived_word, made[1].derived_word),
    )


def _bits(name: str, said: Leaf, branch: Branch, scope: Scope) -> CompiledWord | None:
    of = _of(name, branch, scope)
    if of is None:
        return None
    items = said.value if isinstance(said.value, list) else [said.value]
    ranges = [_range(str(item)) for item in items]
    if not ranges or None in ranges:
        message = f"bits are counted from 0 to {_BITS - 1}, and a range is lowest-highest"
        scope.report(said.spot.make_error("type", message, 'write for example ["28-31", "0-2"]'))
        return None
    source = compile_operand(of.spot, of.value, None, scope)
    if source is None:
        return None
    if source.signature is not ANYTHING and (source.signature.is_list or source.signature.kind is not ValueType.INT):
        scope.report(
            of.spot.make_error("type", "bits are those of an int", 'make it a word with type = "int"', mark="text")
        )
        return None
    made = tuple(one for one in ranges if one is not None)
    return CompiledWord(WordSignature(ValueType.INT, varies=source.signature.varies), Bits(made, source.derived_word))


def _place_in(name: str, said: Leaf, branch: Branch, scope: Scope) -> CompiledWord | None:
    of = _of(name, branch, scope)
    if of is None:
        return None
    among, one = compile_operand(said.spot, said.value, None, scope), compile_operand(of.spot, of.value, None, scope)
    if among is None or one is None or not is_single(of, one, scope):
        return None
    if among.signature is not ANYTHING and not among.signature.is_list:
        message = f"let.{name} wants a list, and this is one value"
        scope.report(
            said.spot.make_error("type", message, 'write for example a word that is names_of = "PATH*"', mark="text")
        )
        return None
    kinds = [made.signature.kind for made in (among, one) if made.signature is not ANYTHING]
    if len(set(kinds)) > 1:
        message = f"the list is of {kinds[0].value}, and {of.value} is {kinds[1].value}: none of it can be in there"
        scope.report(of.spot.make_error("type", message, f'add type = "{kinds[1].value}" to the list', mark="text"))
        return None
    kind = kinds[0] if kinds else ValueType.TEXT
    varies = one.signature.varies or among.signature.varies
    return CompiledWord(
        WordSignature(ValueType.INT, varies=varies), RankWord(among.derived_word, one.derived_word, kind)
    )


def _base64url(name: str, said: Leaf, branch: Branch, scope: Scope) -> CompiledWord | None:
    del name, branch
    found = list(compile_operands(said, None, scope))
    made = [one for one in found if one is not None]
    if len(made) < len(found) or not made or not all(is_single(said, one, scope) for one in made):
        return None
    return CompiledWord(
        WordSignature(ValueType.TEXT, varies=any(one.signature.varies for one in made)),
        Base64Url(tuple(o.derived_word for o in made)),
    )


def _by(name: str, said: Leaf, branch: Branch, scope: Scope) -> CompiledWord | None:
    source = compile_operand(said.spot, said.value, None, scope)
    if source is None or not is_single(said, source, scope):
        return None
    return compile_by(name, source, branch, kind_of(branch) or ValueType.TEXT, scope)


def _probe(name: str, said: Leaf, branch: Branch, scope: Scope) -> CompiledWord | None:
    probe = scope.find_probe(said.spot, said.value)
    field = branch.get_leaf("field")
    if field is None:
        message = f"let.{name} does not say which field of the probe"
        scope.report(branch.spot.make_error("missing", message, 'write field = "…"', mark="key"))
    if probe is None or field is None:
        return None
    kind = kind_of(branch) or ValueType.TEXT
    return CompiledWord(
        WordSignature(kind, varies=not (scope.is_single or scope.has_one_per_container)),
        ProbeWord(probe, str(field.value), kind),
    )


def _of(name: str, branch: Branch, scope: Scope) -> Leaf | None:
    """Of what it is; none, with a finding, if it does not say."""
    of = branch.get_leaf("of")
    if of is None:
        message = f"let.{name} does not say of what"
        scope.report(branch.spot.make_error("missing", message, 'write of = "…"', mark="key"))
    return of


def _range(text: str) -> tuple[int, int] | None:
    low, dash, high = text.partition("-")
    if not low.isdecimal() or not (high.isdecimal() if dash else not high):
        return None
    first, last = int(low), int(high or low)
    return (first, last) if first <= last < _BITS else None


VERBS: Mapping[str, Callable[..., CompiledWord | None]] = {
    "read": _read,
    "first_of": _first_of,
    "read_all": _files(FileTexts, many=True),
    "names_of": _files(FileNames, many=True),
    "name_of": _files(FileName, many=False),
    "field": _field,
    "take": _take,
    "by": _by,
    "text": _text,
    "holds": _holds,
    "kfd_address": _kfd_address,
    "bits": _bits,
    "base64url": _base64url,
    "place_in": _place_in,
    "probe": _probe,
}
