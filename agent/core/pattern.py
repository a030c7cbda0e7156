"""Globs: `*`, `?` and `[…]`, matched whole, never across a `/`, in time text by pattern (no regular expressions)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias


class PatternError(ValueError):
    """A form that this language does not have. `at` is the offset of the piece, `write` what to write instead."""

    def __init__(self, message: str, at: int, length: int, write: str) -> None:
        super().__init__(message)
        self.message = message
        self.at = at
        self.length = length
        self.write = write


@dataclass(frozen=True, slots=True)
class One:
    """One character: any (`?`), or one of a set (`[a-c]`, `[!a-c]`); a literal is a set of one."""

    ranges: tuple[tuple[str, str], ...]
    negated: bool = False

    def fits(self, character: str) -> bool:
        """Whether that character may stand here."""
        return any(low <= character <= high for low, high in self.ranges) != self.negated


ANY = One((), negated=True)

_Run: TypeAlias = tuple[One, ...]  # pieces that stand side by side, with no star among them


@dataclass(frozen=True, slots=True)
class Pattern:
    """A parsed glob; `None` among the pieces is a `*`. Made by `parse`."""

    text: str
    pieces: tuple[One | None, ...]
    _segments: tuple[tuple[_Run, ...], ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Split it as it is matched: at each `/` into segments, and these at their stars into runs."""
        segments: list[list[list[One]]] = [[[]]]
        for piece in self.pieces:
            if piece is None:
                segments[-1].append([])
            elif piece == _SLASH:
                segments.append([[]])
            else:
                segments[-1][-1].append(piece)
        object.__setattr__(self, "_segments", tuple(tuple(map(tuple, segment)) for segment in segments))

    @property
    def literal(self) -> bool:
        """Whether it can match only itself."""
        return all(piece is not None and not piece.negated and _single(piece) for piece in self.pieces)

    def matches(self, text: str) -> bool:
        """Whether the whole text fits, segment by segment: what is not written as `/` never stands for one."""
        parts = text.split("/")
        return len(parts) == len(self._segments) and all(map(_segment_fits, self._segments, parts))


_SLASH = One((("/", "/"),))


def parse(text: str) -> Pattern:
    """A glob from its text.

    Raises:
        PatternError: `**`, `{a,b}`, `[:alpha:]`, a backslash, or a `[` that is never closed.
    """
    pieces: list[One | None] = []
    at = 0
    while at < len(text):
        character = text[at]
        if character == "[":
            one, at = _set(text, at)
            pieces.append(one)
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
        elif character == "{":
            raise PatternError(
                "{a,b} is not supported", at, max(text.find("}", at) + 1 - at, 1), _alternatives(text, at)
            )
        elif character == "\\":
            raise PatternError("a backslash escapes nothing here", at, 1, 'a literal star is "[*]"')
        else:
            pieces.append(_literal(character))
        at += 1
    return Pattern(text, tuple(pieces))


def literal(text: str) -> str:
    """Text as a glob that fits only that text, so that a device's words can never widen a pattern."""
    return "".join(f"[{character}]" if character in "*?[{\\" else character for character in text)


def _segment_fits(runs: tuple[_Run, ...], text: str) -> bool:
    """Whether a text fits runs with a star between each two: the first at its start, the last at its end, each of the
    others as far left as it can, since what it leaves is never too little for those after it.
    """
    first, *middle = runs
    if not middle:
        return len(text) == len(first) and _run_fits(first, text, 0)
    last = middle.pop()
    end = len(text) - len(last)
    if end < len(first) or not _run_fits(first, text, 0) or not _run_fits(last, text, end):
        return False
    at = len(first)
    for run in middle:
        found = next((start for start in range(at, end - len(run) + 1) if _run_fits(run, text, start)), None)
        if found is None:
            return False
        at = found + len(run)
    return True


def _run_fits(run: _Run, text: str, start: int) -> bool:
    return all(piece.fits(text[start + offset]) for offset, piece in enumerate(run))


def _set(text: str, start: int) -> tuple[One, int]:
    """The set that begins at `start`, and where it ends. A `]` right at its beginning is one of the set."""
    at = start + 1
    negated = text[at : at + 1] in {"!", "^"}
    at += negated
    ranges: list[tuple[str, str]] = []
    first = at
    while at < len(text) and (text[at] != "]" or at == first):
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
    return One(tuple(ranges), negated), at + 1


def _literal(character: str) -> One:
    return _SLASH if character == "/" else One(((character, character),))


def _single(piece: One) -> bool:
    return len(piece.ranges) == 1 and piece.ranges[0][0] == piece.ranges[0][1]


def _alternatives(text: str, at: int) -> str:
    end = text.find("}", at)
    if end < 0:
        return 'alternatives are a list of patterns; a literal brace is "[{]"'
    spelled = [f'"{text[:at]}{piece}{text[end + 1 :]}"' for piece in text[at + 1 : end].split(",")]
    return f"write a list: [{', '.join(spelled)}]"
