"""Patterns of kernel log lines. Matching time is at most text length times pattern length.

`{word}` compares with the value of a word. `{word:type}` captures a new word. `*` matches any text.
`{{` and `}}` are braces. All other text is literal.
A number or an address takes as many characters as possible. Text and `*` take as few as possible, from left to right.
At the end of the pattern they take the remaining text.
"""

from __future__ import annotations

import re
from functools import cached_property
from typing import TypeAlias

from agent.core.language.glob import PatternError
from agent.core.language.glob_parts import CapturedWords
from agent.core.language.value import Absent, Scalar, ValueType, make_comparable, parse_kernel_text, parse_operand
from agent.core.struct import Struct, ignore_in_comparison

LIMIT = 4096  # characters of a message to match; the kernel cuts messages much earlier

KINDS = (ValueType.TEXT, ValueType.INT, ValueType.HEX, ValueType.PCI)  # types whose end in a message is defined
_VALUES = {
    ValueType.INT: re.compile(r"-?[0-9]{1,20}(?![0-9])"),
    ValueType.HEX: re.compile(r"(?:0[xX])?[0-9a-fA-F]{1,32}(?![0-9a-fA-F])"),
    ValueType.PCI: re.compile(r"(?:[0-9a-fA-F]{4,8}:)?[0-9a-fA-F]{2}:[01][0-9a-fA-F](?:\.[0-7])?(?!\.?[0-9a-fA-F])"),
}
_BRACE = re.compile(r"([A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z0-9_]+)*)(?::([a-z]*))?")

MessageKey: TypeAlias = tuple[Scalar, ...]  # values of the compared words, in comparable form


@ignore_in_comparison("at")
class Brace(Struct):
    """A brace of a pattern: a word to compare, or a word to capture. `at` is its offset in the pattern."""

    word: str
    kind: ValueType
    is_capture: bool
    at: int = 0


LogPiece: TypeAlias = str | Brace | None  # None is a `*`
_Part: TypeAlias = tuple[Brace | None, tuple[str | Brace, ...]]  # a piece of any length, and the pieces after it


class LogPattern(Struct, dict=True):
    """A parsed pattern of a kernel log line."""

    text: str
    pieces: tuple[LogPiece, ...]

    @cached_property
    def _literal_prefix(self) -> str:
        """The literal text before the first other piece."""
        first_piece = self.pieces[0] if self.pieces else None
        return first_piece if isinstance(first_piece, str) else ""

    @cached_property
    def _parts(self) -> tuple[_Part, ...]:
        """The pieces in the form for matching, split at each piece of any length."""
        parts: list[tuple[Brace | None, list[str | Brace]]] = [(None, [])]
        for piece in self.pieces:
            if piece is None or (isinstance(piece, Brace) and piece.kind not in _VALUES):
                parts.append((piece, []))
            else:
                parts[-1][1].append(piece)
        return tuple((lead, tuple(pieces)) for lead, pieces in parts)

    @property
    def compared_words(self) -> tuple[Brace, ...]:
        """The words whose values must be in the message, in order."""
        return tuple(piece for piece in self.pieces if isinstance(piece, Brace) and not piece.is_capture)

    @property
    def captured_words(self) -> tuple[Brace, ...]:
        """The words that the pattern captures, in order."""
        return tuple(piece for piece in self.pieces if isinstance(piece, Brace) and piece.is_capture)

    def match(self, message: str) -> tuple[MessageKey, CapturedWords] | None:
        """Return the values for the compared words, and the captured words. Return None if nothing matches."""
        if not message.startswith(self._literal_prefix):
            return None
        message = message[:LIMIT]
        values: list[tuple[Brace, Scalar]] = []
        end = 0
        for number, (lead, pieces) in enumerate(self._parts):
            least = end + (lead is not None)
            at = _find_start(pieces, message, least, is_anchored=not number, is_last=number == len(self._parts) - 1)
            fit = None if at is None else _match_pieces(pieces, message, at)
            if at is None or fit is None or at < least:
                return None
            if lead is not None:
                values.append((lead, message[end:at]))
            end, part_values = fit
            values += part_values
        key = tuple(make_comparable(brace.kind, value) for brace, value in values if not brace.is_capture)
        return key, tuple((brace.word, value) for brace, value in values if brace.is_capture)


def _find_start(
    pieces: tuple[str | Brace, ...], message: str, least_at: int, *, is_anchored: bool, is_last: bool
) -> int | None:
    """Return where pieces of fixed length begin, or None.

    Anchored pieces begin at `least_at`. Other pieces begin where they first match. Without pieces, the result is
    the end of the message for the last part, else `least_at`.
    """
    if is_anchored:
        return least_at
    if not pieces:
        return len(message) if is_last else least_at
    lead = pieces[0]
    at = least_at
    while at <= len(message):
        if isinstance(lead, str):
            at = message.find(lead, at)
            if at < 0:
                return None
        if _match_pieces(pieces, message, at) is not None:
            return at
        at += 1
    return None


def _match_pieces(
    pieces: tuple[str | Brace, ...], message: str, at: int
) -> tuple[int, list[tuple[Brace, Scalar]]] | None:
    """Match pieces of fixed length at `at`. Return their end and the values of their braces, or None."""
    values: list[tuple[Brace, Scalar]] = []
    for piece in pieces:
        if isinstance(piece, str):
            if not message.startswith(piece, at):
                return None
            at += len(piece)
            continue
        match = _VALUES[piece.kind].match(message, at)
        value = None if match is None else _parse_value(piece.kind, match[0])
        if match is None or value is None:
            return None
        values.append((piece, value))
        at = match.end()
    return at, values


def _parse_value(kind: ValueType, text: str) -> Scalar | None:
    """Return the value of a text, or None. A PCI address may lack domain and function."""
    if kind is ValueType.PCI:
        return parse_operand(kind, text)
    value = parse_kernel_text(kind, text)
    return None if isinstance(value, Absent) else value


def make_message_keys(kinds: tuple[ValueType, ...], values: tuple[Scalar, ...]) -> frozenset[MessageKey]:
    """Return the keys with which messages can name a device with these values.

    A PCI address has two forms: the full address, and its slot without function.
    """
    keys: set[MessageKey] = {()}
    for kind, value in zip(kinds, values, strict=True):
        forms = {make_comparable(kind, value)}
        if kind is ValueType.PCI:
            forms.add(str(value).partition(".")[0])
        keys = {(*key, form) for key in keys for form in forms}
    return frozenset(keys)


def parse(text: str) -> tuple[str | tuple[str, str | None, int, int] | None, ...]:
    """Parse a pattern into literal texts, braces and stars (None).

    A brace is its word, its type (None if missing), its offset and its length.

    Raises:
        PatternError: a brace has no partner, or contains no word.
    """
    pieces: list[str | tuple[str, str | None, int, int] | None] = []
    at = 0
    while at < len(text):
        if text.startswith(("{{", "}}"), at):
            _add_literal(pieces, text[at])
            at += 2
        elif text[at] == "{":
            end = text.find("}", at)
            if end < 0:
                raise PatternError("this brace is never closed", at, len(text) - at, 'a literal brace is "{{"')
            match = _BRACE.fullmatch(text, at + 1, end)
            if match is None:
                message = f"{text[at : end + 1]} is no word, and no word with a type"
                raise PatternError(message, at, end + 1 - at, "write {word} to compare, {word:int} to take")
            pieces.append((match[1], match[2], at, end + 1 - at))
            at = end + 1
        elif text[at] == "}":
            raise PatternError("this brace was never opened", at, 1, 'a literal brace is "}}"')
        elif text[at] == "*":
            if pieces[-1:] != [None]:
                pieces.append(None)
            at += 1
        else:
            _add_literal(pieces, text[at])
            at += 1
    return tuple(pieces)


def _add_literal(pieces: list[str | tuple[str, str | None, int, int] | None], character: str) -> None:
    last = pieces[-1] if pieces else None
    if isinstance(last, str):
        pieces[-1] = last + character
    else:
        pieces.append(character)
