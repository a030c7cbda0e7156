"""The pieces of a glob, and the capture of words. Captures take few characters, from left to right."""

from __future__ import annotations

from typing import TypeAlias

from agent.core.language.value import Absent, Scalar, ValueType, parse_kernel_text
from agent.core.struct import Struct

CapturedWords: TypeAlias = tuple[tuple[str, Scalar], ...]  # captured words with their values, in order

CAPTURE_TYPES = (ValueType.TEXT, ValueType.INT, ValueType.HEX, ValueType.PCI)  # the types of a capture
_LONGEST = {ValueType.INT: 20, ValueType.HEX: 34, ValueType.PCI: 18}  # characters of a value; text has no limit


class CharacterSet(Struct):
    """One character: any (`?`), or one of a set (`[a-c]`, `[!a-c]`). A literal is a set of one character."""

    ranges: tuple[tuple[str, str], ...]
    negated: bool = False

    def contains(self, character: str) -> bool:
        """Return whether the set contains this character."""
        return any(low <= character <= high for low, high in self.ranges) != self.negated


class Capture(Struct):
    """A capture `{word:type}`: one or more characters that form a value of this type."""

    word: str
    kind: ValueType

    def parse_value(self, text: str) -> Scalar | None:
        """Return the value of a text for this word, or None if it is no such value. An `int` is digits only."""
        if not text or (self.kind is ValueType.INT and not (text.isascii() and text.isdigit())):
            return None
        value = parse_kernel_text(self.kind, text)
        return None if isinstance(value, Absent) else value


Pieces: TypeAlias = tuple[CharacterSet | Capture | None, ...]  # None is a `*`


def extract_words(pieces: Pieces, text: str) -> CapturedWords | None:
    """Return the captured words of a name, or None if it does not match. The pieces must not contain a `/`."""
    return _SegmentMatcher(pieces, text).match_from(0, 0)


class _SegmentMatcher:
    """The match of one segment with one name. It tries no failed combination again."""

    def __init__(self, pieces: Pieces, text: str) -> None:
        self._pieces = pieces
        self._text = text
        self._failed_ends: set[tuple[int, int]] = set()
        self._failed_from: dict[int, int] = {}  # by piece of any length: ends from here on fail

    def match_from(self, index: int, at: int) -> CapturedWords | None:
        """Match the pieces from `index` with the text from `at`. Return the captured words, or None."""
        text = self._text
        while index < len(self._pieces):
            piece = self._pieces[index]
            if not isinstance(piece, CharacterSet):
                return self._match_any_length(index, piece, at)
            if at == len(text) or not piece.contains(text[at]):
                return None
            index, at = index + 1, at + 1
        return () if at == len(text) else None

    def _match_any_length(self, index: int, piece: Capture | None, at: int) -> CapturedWords | None:
        if piece is not None and piece.kind in _LONGEST:
            return self._match_value(index, piece, at)
        least_end = at + (piece is not None)
        for end in range(least_end, self._failed_from.get(index, len(self._text) + 1)):
            later_words = self.match_from(index + 1, end)
            if later_words is not None:
                return ((piece.word, self._text[at:end]), *later_words) if piece else later_words
        self._failed_from[index] = min(least_end, self._failed_from.get(index, least_end))
        return None

    def _match_value(self, index: int, piece: Capture, at: int) -> CapturedWords | None:
        for end in range(at + 1, min(at + _LONGEST[piece.kind], len(self._text)) + 1):
            value = piece.parse_value(self._text[at:end])
            if value is None or (index, end) in self._failed_ends:
                continue
            later_words = self.match_from(index + 1, end)
            if later_words is not None:
                return ((piece.word, value), *later_words)
            self._failed_ends.add((index, end))
        return None
