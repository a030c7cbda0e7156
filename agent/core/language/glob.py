"""Globs: `*`, `?` and `[…]` over a whole text. No wildcard matches a `/`.

Matching uses no regular expressions. Its time is at most text length times glob length.
With `allow_captures`, `{word:type}` captures a part of the text as a new word.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property, lru_cache
from typing import TypeAlias

from agent.core.language.glob_parts import CAPTURE_TYPES, Capture, CapturedWords, CharacterSet, Pieces, extract_words
from agent.core.language.value import FormError, Scalar
from agent.core.struct import Struct


class PatternError(FormError):
    """A form that the glob language does not have."""


ANY = CharacterSet((), negated=True)
_SPECIAL = re.compile(r"[*?[{\\]")
_CAPTURE = re.compile(r"([A-Za-z_][A-Za-z0-9_]*):([a-z]*)")

_Run: TypeAlias = tuple[CharacterSet, ...]  # adjacent pieces without a star


class Glob(Struct, dict=True):
    """A parsed glob, from `parse`. `None` among the pieces is a `*`."""

    text: str
    pieces: Pieces

    @cached_property
    def captures(self) -> tuple[Capture, ...]:
        """Its captures `{word:type}`, in order."""
        return tuple(piece for piece in self.pieces if isinstance(piece, Capture))

    @cached_property
    def _literal_prefix(self) -> str:
        """The literal text before the first wildcard."""
        return _find_literal_prefix(self.pieces)

    @cached_property
    def _is_prefix_only(self) -> bool:
        """Return whether the glob is literal text and one final star."""
        return len(self._literal_prefix) == len(self.pieces) - 1 and self.pieces[-1] is None

    @cached_property
    def _segments(self) -> tuple[tuple[_Run, ...], ...]:
        """The pieces in the form for matching: segments between slashes, each split at its stars into runs."""
        segments: list[list[list[CharacterSet]]] = [[[]]]
        for piece in self.pieces:
            if piece is None:
                segments[-1].append([])
            elif piece == _SLASH:
                segments.append([[]])
            elif isinstance(piece, CharacterSet):
                segments[-1][-1].append(piece)
        return tuple(tuple(map(tuple, segment)) for segment in segments)

    @property
    def is_literal(self) -> bool:
        """Return whether the glob matches only its own text."""
        return all(
            isinstance(piece, CharacterSet) and not piece.negated and _is_single_character(piece)
            for piece in self.pieces
        )

    def extract_words(self, text: str) -> CapturedWords | None:
        """Return the captured words of a whole text, or None if the text does not match.

        From left to right, each capture and each `*` takes as few characters as possible.
        """
        words: list[tuple[str, Scalar]] = []
        parts, segments = text.split("/"), tuple(_split_segments(self.pieces))
        if len(parts) != len(segments):
            return None
        for pieces, part in zip(segments, parts, strict=True):
            segment_words = extract_words(pieces, part)
            if segment_words is None:
                return None
            words += segment_words
        return tuple(words)

    def matches(self, text: str) -> bool:
        """Return whether the whole text matches, segment by segment. Only a written `/` matches a slash."""
        if not text.startswith(self._literal_prefix):
            return False
        if self._is_prefix_only:
            return "/" not in text[len(self._literal_prefix) :]
        if self.captures:
            return self.extract_words(text) is not None
        parts = text.split("/")
        return len(parts) == len(self._segments) and all(map(_matches_segment, self._segments, parts))


_SLASH = CharacterSet((("/", "/"),))


def parse(text: str, *, allow_captures: bool = False) -> Glob:
    """Parse a glob. With `allow_captures`, the glob may have captures.

    Raises:
        PatternError: for `**`, `{a,b}`, `[:alpha:]`, a backslash, an open `[`, or a faulty capture.
    """
    pieces: list[CharacterSet | Capture | None] = []
    at = 0
    while at < len(text):
        character = text[at]
        if character == "[":
            character_set, at = _parse_set(text, at)
            pieces.append(character_set)
            continue
        if character == "*":
            if text[at + 1 : at + 2] == "*":
                raise PatternError(
                    "** is not supported: one * goes through one directory",
                    at,
                    2,
                    f'write "{text[:at]}*{text[at + 2 :]}", or a list with one pattern for each depth',
                )
            pieces.append(None)
        elif character == "?":
            pieces.append(ANY)
        elif character == "{" and allow_captures and "," not in text[at : text.find("}", at) + 1]:
            capture = _parse_capture(text, at, pieces)
            pieces.append(capture)
            at = text.index("}", at)
        elif character == "{":
            raise PatternError(
                "{a,b} is not supported", at, max(text.find("}", at) + 1 - at, 1), _suggest_list(text, at)
            )
        elif character == "\\":
            raise PatternError("a backslash escapes nothing here", at, 1, 'a literal star is "[*]"')
        else:
            pieces.append(_make_literal(character))
        at += 1
    return Glob(text, tuple(pieces))


def escape_glob(text: str) -> str:
    """Return a glob that matches only this text, so that the words of a device cannot widen a pattern."""
    return _SPECIAL.sub(r"[\g<0>]", text)


def _parse_capture(text: str, at: int, previous_pieces: list[CharacterSet | Capture | None]) -> Capture:
    """Return the capture whose brace is at `at`."""
    end = text.find("}", at)
    if end < 0:
        raise PatternError("this brace is never closed", at, len(text) - at, 'a literal brace is "[{]"')
    inside = text[at + 1 : end]
    match = _CAPTURE.fullmatch(inside)
    if match is None:
        if ":" not in inside:
            message = f"{{{inside}}} has no type, so it takes nothing"
            raise PatternError(message, at, end + 1 - at, f'write "{text[:end]}:text{text[end:]}" to take what is here')
        raise PatternError(
            f"{{{inside}}}: a word is letters, digits and _", at, end + 1 - at, 'write for example "{number:int}"'
        )
    word, kind = match.groups()
    kinds = {capture_type.value: capture_type for capture_type in CAPTURE_TYPES}
    if kind not in kinds:
        message = f"{{{inside}}}: what is taken is {', '.join(kinds)}"
        raise PatternError(message, at, end + 1 - at, f'write "{text[:at]}{{{word}:text}}{text[end + 1 :]}"')
    if any(isinstance(piece, Capture) and piece.word == word for piece in previous_pieces):
        raise PatternError(f"{word} is taken twice here", at, end + 1 - at, "take another name")
    return Capture(word, kinds[kind])


def _find_literal_prefix(pieces: Pieces) -> str:
    """Return the literal text before the first wildcard. This prefix excludes most texts without more work."""
    begins = ""
    for piece in pieces:
        if not isinstance(piece, CharacterSet) or piece.negated or not _is_single_character(piece):
            break
        begins += piece.ranges[0][0]
    return begins


def _split_segments(pieces: Pieces) -> Iterator[Pieces]:
    """Yield the pieces between slashes."""
    segment: list[CharacterSet | Capture | None] = []
    for piece in pieces:
        if piece == _SLASH:
            yield tuple(segment)
            segment = []
        else:
            segment.append(piece)
    yield tuple(segment)


@lru_cache(maxsize=1024)
def find_literal_prefix(glob: str) -> tuple[str, bool]:
    """Return the leading path steps that match only themselves, and whether they are the whole glob."""
    parts: list[str] = []
    for part in glob.split("/"):
        parsed = parse(part)
        if not parsed.is_literal:
            return "/".join(parts), False
        parts.append("".join(piece.ranges[0][0] for piece in parsed.pieces if isinstance(piece, CharacterSet)))
    return "/".join(parts), True


def _matches_segment(runs: tuple[_Run, ...], text: str) -> bool:
    """Return whether a text matches runs that are separated by stars.

    The first run matches at the start and the last run at the end. Each other run matches as far left as possible.
    The leftmost match leaves the most text for the later runs.
    """
    first_run, *middle = runs
    if not middle:
        return len(text) == len(first_run) and _matches_run(first_run, text, 0)
    last_run = middle.pop()
    end = len(text) - len(last_run)
    if end < len(first_run) or not _matches_run(first_run, text, 0) or not _matches_run(last_run, text, end):
        return False
    at = len(first_run)
    for run in middle:
        run_start = next((start for start in range(at, end - len(run) + 1) if _matches_run(run, text, start)), None)
        if run_start is None:
            return False
        at = run_start + len(run)
    return True


def _matches_run(run: _Run, text: str, start: int) -> bool:
    return all(piece.contains(text[start + offset]) for offset, piece in enumerate(run))


def _parse_set(text: str, start: int) -> tuple[CharacterSet, int]:
    """Return the set that begins at `start`, and its end. A `]` directly after the `[` belongs to the set."""
    at = start + 1
    negated = text[at : at + 1] in {"!", "^"}
    at += negated
    ranges: list[tuple[str, str]] = []
    first_at = at
    while at < len(text) and (text[at] != "]" or at == first_at):
        low = text[at]
        if low == "[" and text[at + 1 : at + 2] in {":", "=", "."}:
            raise PatternError("[:names:] of characters are not supported", at, 2, "write the range, [0-9] or [a-z]")
        if low == "/":
            raise PatternError("a / is written for itself, never in brackets", at, 1, "write it outside of them")
        if text[at + 1 : at + 2] == "-" and at + 2 < len(text) and text[at + 2] != "]":
            high = text[at + 2]
            if high < low:
                raise PatternError(f'the range "{low}-{high}" is empty', at, 3, f'write "{high}-{low}" in the brackets')
            ranges.append((low, high))
            at += 3
        else:
            ranges.append((low, low))
            at += 1
    if at >= len(text):
        raise PatternError(
            '"[" is never closed, so this could match nothing',
            start,
            len(text) - start,
            f'write "{text[start:]}]"; a literal bracket is "[[]"',
        )
    return CharacterSet(tuple(ranges), negated), at + 1


def _make_literal(character: str) -> CharacterSet:
    return _SLASH if character == "/" else CharacterSet(((character, character),))


def _is_single_character(piece: CharacterSet) -> bool:
    return len(piece.ranges) == 1 and piece.ranges[0][0] == piece.ranges[0][1]


def _suggest_list(text: str, at: int) -> str:
    end = text.find("}", at)
    if end < 0:
        return 'alternatives are a list of patterns; a literal brace is "[{]"'
    spelled = [f'"{text[:at]}{piece}{text[end + 1 :]}"' for piece in text[at + 1 : end].split(",")]
    return f"write a list: [{', '.join(spelled)}]"
