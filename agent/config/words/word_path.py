"""Operands of derived words: a word, or a path in its shortest form with `{words}` and globs."""

from __future__ import annotations

from typing import NamedTuple

from agent.config.language.path_rule import suggest_path
from agent.config.merge.config_tree import Leaf
from agent.config.scope import ANYTHING, CompiledWord, Scope, WordSignature, require_all
from agent.config.toml.file_position import FilePosition, FindingMark, TextPiece
from agent.core.entry.derived_words import CopiedWord
from agent.core.entry.file_words import FilePath, FileText
from agent.core.entry.joins import Join
from agent.core.language.template import Slot, TemplateError, parse
from agent.core.language.value import ValueType
from agent.core.struct import replace


class WordPath(NamedTuple):
    """A path.

    is_list: several files can match.
    varies: the value can differ between two devices of one container.
    """

    path: FilePath
    is_list: bool
    varies: bool


def is_path(written: str) -> bool:
    """Return whether the operand is a path, not a word."""
    return "/" in written


def compile_path(spot: FilePosition, written: str, scope: Scope, mark: FindingMark = "text") -> WordPath | None:
    """Return the path of a text, or None. Faults are reported."""
    head = written.partition("/")[0]
    if "{" in head:
        message = "a path begins with ./, with /sys, /proc or /dev, or with a relation and a /"
        scope.report_error(spot, "path", message, 'write for example "./file"', mark=mark)
        return None
    if written.startswith("/") and ".." in written.split("/"):
        scope.report_error(spot, "path", 'a path from the root has no ".." in it', suggest_path(written), mark=mark)
        return None
    try:
        text = parse(written)
        shortest = parse(_shorten(written))
    except TemplateError as error:
        write = error.write
        if "{" in written and ":" in written:
            write = "what a brace takes stands in source and in take; {word} puts a word here"
        piece_mark = TextPiece(error.at, error.length) if mark == "text" else mark
        scope.report_error(spot, "text", error.message, write, mark=piece_mark)
        return None
    skeleton = "".join(piece if isinstance(piece, str) else "x" for piece in shortest.pieces)
    signature = scope.find_word(spot, skeleton, mark)
    if signature is None:
        return None
    words: list[WordSignature] = []
    for slot in text.slots:
        piece_mark = TextPiece(slot.at + 1, len(slot.word)) if mark == "text" else mark
        word = scope.find_word(spot, slot.word, piece_mark)
        if word is None:
            return None
        if not _is_path_piece(spot, slot, word, scope, piece_mark):
            return None
        words.append(word)
    join: Join | None = None
    start = str(shortest.pieces[0])
    if scope.entry_words is not None and scope.entry_words.is_joined(head):
        join_path = scope.entry_words.split_join_path(start)
        if join_path is None:
            message = f"{head} is a partner's partner; a word of the join's let can read there"
            scope.report_error(spot, "path", message, "read there by the join's let", mark=mark)
            return None
        join, start = join_path
    start = start.replace("{", "[{]")
    pieces = tuple(piece.replace("{", "[{]") if isinstance(piece, str) else piece for piece in shortest.pieces[1:])
    path = FilePath(start, (start, *pieces), join) if shortest.slots else FilePath(start, join=join)
    varies = any(word.varies for word in words) or signature.varies
    return WordPath(path, signature.is_list, varies)


def compile_operand(spot: FilePosition, written: object, kind: ValueType | None, scope: Scope) -> CompiledWord | None:
    """Return the word or path that another word uses, or None. Faults are reported.

    kind: the type that a text is parsed as. None: the value stays as it is.
    """
    if not isinstance(written, str) or not written:
        scope.report_error(spot, "type", "a word or a path is wanted here", 'write for example "./file"')
        return None
    if is_path(written):
        path = compile_path(spot, written, scope)
        if path is None:
            return None
        return CompiledWord(
            WordSignature(kind or ValueType.TEXT, varies=path.varies), FileText(path.path, kind or ValueType.TEXT)
        )
    if "{" in written:
        message = "a word is wanted here, and this is a text"
        scope.report_error(spot, "type", message, f'write {{ text = "{written}" }}', mark="text")
        return None
    signature = scope.find_word(spot, written, "text")
    if signature is None:
        return None
    if signature is ANYTHING or kind is None or kind is signature.kind:
        return CompiledWord(signature, CopiedWord(written))
    if signature.kind is not ValueType.TEXT:
        message = f"{written} is {signature.kind.value}, and nothing turns into {kind.value} by itself"
        scope.report_error(spot, "type", message, f'leave type out, or write "{signature.kind.value}"', mark="text")
        return None
    return CompiledWord(replace(signature, kind=kind), CopiedWord(written, kind))


def compile_operands(leaf: Leaf, kind: ValueType | None, scope: Scope) -> tuple[CompiledWord, ...] | None:
    """Return the words or paths of a list. Return None if one of them has a fault, or if the list is empty."""
    elements = leaf.spot.list_elements(leaf.value)
    if not elements:
        scope.report_error(leaf.spot, "type", "an empty list says nothing", 'write for example ["./file"]')
    return require_all(compile_operand(spot, item, kind, scope) for spot, item in elements) or None


def require_single_value(leaf: Leaf, compiled_word: CompiledWord, scope: Scope) -> bool:
    """Return whether an operand is a single value. A list is reported."""
    if not compiled_word.signature.is_list:
        return True
    scope.report_error(
        leaf.spot, "type", "this is a list, and one value is wanted", "take a word that says one thing", mark="text"
    )
    return False


def _is_path_piece(spot: FilePosition, slot: Slot, word: WordSignature, scope: Scope, mark: FindingMark) -> bool:
    """Return whether a word can be a part of a path. A list or a whole path is reported."""
    if word is ANYTHING or not (word.is_list or word.kind is ValueType.PATH):
        return True
    fault = "a list, and this is one path" if word.is_list else "a whole path, and here is place for a name"
    scope.report_error(spot, "type", f"{slot.word} is {fault}", "take a word that is a name", mark=mark)
    return False


def _shorten(written: str) -> str:
    """Return a path without empty steps and `.`. Steps `..` stay, because they follow links."""
    head, _, remainder = written.partition("/")
    steps = [step for step in remainder.split("/") if step not in {"", "."}]
    return "/".join((head, *steps)) if steps else f"{head}/"
