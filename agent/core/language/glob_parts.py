"""The pieces of a pattern, and how they take what stands at their places: as little as fits, from left to right."""

from __future__ import annotations

from typing import TypeAlias

from agent.core.language.value import Absent, Scalar, ValueType, parse_kernel_text
from agent.core.struct import Struct

CapturedWords: TypeAlias = tuple[tuple[str, Scalar], ...]  # words with what was taken for them, in order

CAPTURE_TYPES = (ValueType.TEXT, ValueType.INT, ValueType.HEX, ValueType.PCI)  # the kinds that a piece of a name can be
_LONGEST = {ValueType.INT: 20, ValueType.HEX: 34, ValueType.PCI: 18}  # characters of a value; text has any number


class CharacterSet(Struct):
    """One character: any (`?`), or one of a set (`[a-c]`, `[!a-c]`); a literal is a set of one."""

    ranges: tuple[tuple[str, str], ...]
    negated: bool = False

    def contains(self, character: str) -> bool:
        """Whether that character may stand here."""
        return any(low <= character <= high for low, high in self.ranges) != self.negated


class Capture(Struct):
    """`{word:type}`: one or more characters that are a value of that kind."""

    word: str
    kind: ValueType

    def parse_value(self, text: str) -> Scalar | None:
        """What a piece of a name is as this word; none if it cannot be that. An `int` is digits and nothing else."""
        if not text or (self.kind is ValueType.INT and not (text.isascii() and text.isdigit())):
            return None
        value = parse_kernel_text(self.kind, text)
        return None if isinstance(value, Absent) else value


Pieces: TypeAlias = tuple[CharacterSet | Capture | None, ...]  # None is a `*`


def extract_words(pieces: Pieces, text: str) -> CapturedWords | None:
    """What a name has at the places of the captures; none if it does not fit the pieces, among which is no `/`."""
    return _SegmentMatcher(pieces, text).match_from(0, 0)


class _SegmentMatcher:
    """One segment while it is fitted to one name; what is known not to fit is tried once."""

    def __init__(self, pieces: Pieces, text: str) -> None:
        self._pieces = pieces
        self._text = text
        self._failed_ends: set[tuple[int, int]] = set()
        self._failed_from: dict[int, int] = {}  # of a piece of any length: no end from here on lets the rest fit

    def match_from(self, index: int, at: int) -> CapturedWords | None:
        """What is taken if the pieces from `index` on are to fit the text from `at` on; none if they do not."""
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
