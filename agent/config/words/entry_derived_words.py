"""The derived words of one entry: captures of its source pattern, `let` and `join`. Each is compiled at first use."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import NamedTuple

from agent.config.language.key_table import EITHER, OPERATORS
from agent.config.merge.config_tree import Branch, Leaf
from agent.config.scope import ANYTHING, GRANT_WORDS, CompiledWord, Scope, WordSignature
from agent.config.toml.file_position import FilePosition, FindingMark, TextPiece
from agent.config.words import join_compiler
from agent.config.words.let_compiler import compile_let
from agent.config.words.word_path import compile_path
from agent.core.entry.derived_words import CapturedWord
from agent.core.entry.file_words import FileText, FileTexts
from agent.core.entry.joins import DerivedWord, Join
from agent.core.entry.partner_checks import HEALTHY, REASON
from agent.core.entry.resource_spec import NODE_NUMBER, Source
from agent.core.inventory.partner_words import PartnerHealthWord, PartnerWord
from agent.core.language.glob import parse
from agent.core.language.glob_parts import Capture
from agent.core.language.value import ValueType
from agent.core.struct import replace
from agent.scanners import source_kinds

_CYCLE = "have one of them rest on something else"
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_RESERVED = frozenset(
    {*GRANT_WORDS, *OPERATORS, EITHER, NODE_NUMBER, "given", "host", "udev", "options", "matched", "members"}
)


_HEALTH_WORDS = {HEALTHY: ValueType.BOOL, REASON: ValueType.TEXT}
_HEALTH_SECTIONS = ("health", "wait", "give")  # sections that can use partner health


class _Declaration(NamedTuple):
    spot: FilePosition
    make: Callable[[], CompiledWord | None]


class EntryDerivedWords:
    """The derived words of an entry; see `agent.config.scope.EntryWordScope`."""

    def __init__(self, tree: Branch, scope: Scope, constants: Mapping[str, DerivedWord]) -> None:
        """Declare the words of an entry. constants: its options, which are also words of its partners."""
        self._scope = scope = replace(scope, entry_words=self, is_before_grouping=True)
        self._constants = constants
        self._health_sections = [
            branch for section in _HEALTH_SECTIONS if (branch := tree.get_branch(section)) is not None
        ]
        self._joins: dict[str, join_compiler.CompiledJoin | None] = {}
        self._join_branches: dict[str, Branch] = {}
        self._compiled_words: dict[str, CompiledWord | None] = {}
        self._open_names: list[str] = []
        self._declarations: dict[str, _Declaration] = {}
        for capture, spot, mark in _list_captures(tree.get_leaf("source"), scope.source):
            declaration = self._declarations.get(capture.word)
            if declaration is None and self._is_free_name(capture.word, spot, mark):
                self._declarations[capture.word] = _Declaration(spot, partial(_make_captured_word, capture, scope))
            elif declaration is not None and declaration.make() != _make_captured_word(capture, scope):
                message = f"{capture.word} is of another type in an earlier pattern"
                scope.report_error(spot, "type", message, "write the same type", mark=mark)
        for name, branch in tree.list_branches("let"):
            if self._is_free_name(name, branch.spot):
                self._declarations[name] = _Declaration(branch.spot, partial(compile_let, name, branch, scope))
        for name, branch in tree.list_branches("join"):
            if (name == "pci" and join_compiler.is_below_proc(scope.source)) or self._is_free_name(name, branch.spot):
                self._join_branches[name] = branch

    def find_signature(self, word: str) -> WordSignature | None:
        """Return the signature of a derived word, or None."""
        declaration = self._declarations.get(word)
        if declaration is None:
            return None
        if word in self._open_names:
            cycle = " → ".join((*self._open_names[self._open_names.index(word) :], word))
            self._scope.report_error(declaration.spot, "cycle", f"{cycle}: each needs the other", _CYCLE, mark="key")
            return ANYTHING
        if word not in self._compiled_words:
            self._open_names.append(word)
            self._compiled_words[word] = declaration.make()
            self._open_names.pop()
        compiled_word = self._compiled_words[word]
        return ANYTHING if compiled_word is None else compiled_word.signature

    def is_joined(self, word: str) -> bool:
        """Return whether a word is a word of a partner."""
        return _split_head(word)[0] in self._join_branches

    def find_partner_signature(
        self, spot: FilePosition, word: str, mark: FindingMark, *, allows_health: bool
    ) -> WordSignature | None:
        """Return the signature of a word of a partner, or None. An unknown word is reported."""
        head, partner_word = _split_head(word)
        compiled_join = self._compile_join(head)
        if compiled_join is None:
            return ANYTHING
        if compiled_join.has_health_words and partner_word in _HEALTH_WORDS:
            if not allows_health:
                message = f"{partner_word} of a class is known after a look, and this is asked in it"
                write = "say it in a wait, in holds, when or reason of a check, or in a when of what is given"
                self._scope.report_error(spot, "unknown-word", message, write, mark=mark)
                return None
            wellness = self._compiled_words[word] = CompiledWord(
                WordSignature(_HEALTH_WORDS[partner_word]), PartnerHealthWord(compiled_join.join, partner_word)
            )
            return wellness.signature
        signature = WordSignature(ValueType.TEXT)
        if partner_word:
            cut = len(word) - len(partner_word.removeprefix("./"))
            inner_mark = TextPiece(mark.at + cut, mark.length - cut) if isinstance(mark, TextPiece) else mark
            inner_signature = compiled_join.scope.find_word(spot, partner_word, inner_mark)
            if inner_signature is None:
                return None
            if inner_signature is ANYTHING:
                return inner_signature
            signature = replace(inner_signature, varies=not self._scope.is_single)
        self._compiled_words[word] = CompiledWord(signature, PartnerWord(compiled_join.join, partner_word))
        return signature

    def find_health_joins(self, words: Iterable[str]) -> tuple[str, ...]:
        """Return the joins whose partner health these words use."""
        derived_words = (
            compiled_word.derived_word
            for word in words
            if (compiled_word := self._compiled_words.get(word)) is not None
        )
        return tuple(
            dict.fromkeys(
                derived_word.join.name for derived_word in derived_words if isinstance(derived_word, PartnerHealthWord)
            )
        )

    def split_join_path(self, path: str) -> tuple[Join, str] | None:
        """Return the join at the beginning of a path and the path of the partner. Return None without such a join."""
        head, partner_path = _split_head(path)
        compiled_join = self._compile_join(head) if head in self._join_branches else None
        if compiled_join is None or (
            compiled_join.scope.entry_words is not None and compiled_join.scope.entry_words.is_joined(partner_path)
        ):
            return None
        return compiled_join.join, partner_path

    def _compile_join(self, name: str) -> join_compiler.CompiledJoin | None:
        """Return a join, compiled at first use, or None."""
        if name in self._open_names:
            cycle = " → ".join((*self._open_names[self._open_names.index(name) :], name))
            spot = self._join_branches[name].spot
            self._scope.report_error(spot, "cycle", f"{cycle}: each needs the other", _CYCLE, mark="key")
            return None
        if name not in self._joins:
            self._open_names.append(name)
            branch = self._join_branches[name]
            self._joins[name] = join_compiler.compile_join(
                name, branch, self._scope, self._constants, self._make_partner(name)
            )
            self._open_names.pop()
        return self._joins[name]

    def _make_partner(self, name: str) -> join_compiler.Partner:
        """Return how the words of a partner are compiled, and whether the entry uses its health."""
        return join_compiler.Partner(
            EntryDerivedWords, needs_health=any(_mentions_health(branch, name) for branch in self._health_sections)
        )

    def compile_path(self, spot: FilePosition, written: str, mark: FindingMark) -> WordSignature | None:
        """Return the signature of a path with words in it. The text of the path is the name of the derived word."""
        if written not in self._compiled_words:
            word_path = compile_path(spot, written, self._scope, mark)
            if word_path is None:
                return None
            derived_word = (
                FileTexts(word_path.path, ValueType.TEXT)
                if word_path.is_list
                else FileText(word_path.path, ValueType.TEXT)
            )
            self._compiled_words[written] = CompiledWord(
                WordSignature(ValueType.TEXT, word_path.is_list, word_path.varies), derived_word
            )
        compiled_word = self._compiled_words[written]
        return compiled_word.signature if compiled_word else None

    def list_names(self) -> tuple[str, ...]:
        """Return the names of all words and joins, as written."""
        return (*self._declarations, *self._join_branches)

    def list_joins(self) -> tuple[Join, ...]:
        """Return all joins without faults, used or not."""
        compiled_joins = [self._compile_join(name) for name in self._join_branches]
        return tuple(compiled_join.join for compiled_join in compiled_joins if compiled_join is not None)

    def compile_all(self) -> dict[str, DerivedWord]:
        """Return all words without faults, used or not. All faults are reported."""
        for word in self._declarations:
            self.find_signature(word)
        for name in self._join_branches:
            self._compile_join(name)
        return {
            word: compiled_word.derived_word
            for word, compiled_word in self._compiled_words.items()
            if compiled_word is not None
        }

    def _is_free_name(self, name: str, spot: FilePosition, mark: FindingMark = "key") -> bool:
        """Return whether a word can have this name. Faults are reported."""
        if not _WORD.fullmatch(name):
            write = f"write {re.sub('[^A-Za-z0-9_]', '_', name)}"
            self._scope.report_error(spot, "type", "a word is letters, digits and _", write, mark="key")
            return False
        if name in _RESERVED or name in self.list_names() or _is_source_word(self._scope.source, name):
            message = f"{name} is a word already, and an own word takes no other's name"
            self._scope.report_error(spot, "taken", message, "take another name", mark=mark)
            return False
        return True


def _list_captures(leaf: Leaf | None, source: Source | None) -> Iterator[tuple[Capture, FilePosition, TextPiece]]:
    """Yield the captures of the patterns of a source, with their file positions."""
    if leaf is None or source is None or source.kind not in {"node", "dir"} or not isinstance(leaf.value, dict):
        return
    for spot, item in leaf.spot.get_child(source.kind).list_elements(leaf.value[source.kind]):
        text = str(item)
        for capture in parse(text, allow_captures=True).captures:
            written = f"{{{capture.word}:{capture.kind.value}}}"
            yield capture, spot, TextPiece(text.index(written), len(written))


def _mentions_health(branch: Branch, name: str) -> bool:
    """Return whether a section uses the health of a partner."""
    words = {f"{name}.{HEALTHY}", f"{name}.{REASON}"}
    for key, node in branch.members.items():
        if key in words or (isinstance(node, Branch) and _mentions_health(node, name)):
            return True
        if isinstance(node, Leaf) and isinstance(node.value, str) and any(f"{{{word}" in node.value for word in words):
            return True
    return False


def _split_head(word: str) -> tuple[str, str]:
    """Return the first part of a word, which can be the name of a join, and the rest as a word or path of the
    partner.
    """
    end = next((index for index, letter in enumerate(word) if letter in "./"), len(word))
    mark, remainder = word[end : end + 1], word[end + 1 :]
    return word[:end], f"./{remainder}" if mark == "/" else remainder


def _make_captured_word(capture: Capture, scope: Scope) -> CompiledWord:
    return CompiledWord(
        WordSignature(capture.kind, varies=scope.has_several_devices),
        CapturedWord(capture.word),
    )


def _is_source_word(source: Source | None, name: str) -> bool:
    if source is None:
        return False
    try:
        source_kinds.get_word_type(source.kind, name)
    except source_kinds.UnknownWordError:
        return False
    return True
