"""Globs: `*`, `?` and `[…]`, matched whole, never across a `/`, in linear time (no regular expressions inside)."""

from __future__ import annotations

from dataclasses import dataclass


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
        """Whether that character may stand here; `/` never fits what is not literally `/`."""
        inside = any(low <= character <= high for low, high in self.ranges)
        return inside != self.negated and (character != "/" or (inside and not self.negated))


ANY = One((), negated=True)


@dataclass(frozen=True, slots=True)
class Pattern:
    """A parsed glob; `None` among the pieces is a `*`."""

    text: str
    pieces: tuple[One | None, ...]

    @property
    def literal(self) -> bool:
        """Whether it can match only itself."""
        return all(piece is not None and not piece.negated and _single(piece) for piece in self.pieces)

    def matches(self, text: str) -> bool:
        """Whether the whole text fits; two pointers with one point of return, so linear times stars."""
        pieces, at, inside, star, resume = self.pieces, 0, 0, -1, 0
        while at < len(text):
            piece = pieces[inside] if inside < len(pieces) else ANY
            if inside < len(pieces) and piece is None:
                star, resume = inside, at
                inside += 1
            elif inside < len(pieces) and piece is not None and piece.fits(text[at]):
                at += 1
                inside += 1
            elif star >= 0 and text[resume] != "/":
                resume += 1
                at, inside = resume, star + 1
            else:
                return False
        return all(piece is None for piece in pieces[inside:])


def parse(text: str) -> Pattern:
    """A glob from its text.

    Raises:
        PatternError: `**`, `{a,b}`, or a `[` that is never closed.
    """
    pieces: list[One | None] = []
    at = 0
    while at < len(text):
        character = text[at]
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
        elif character == "[":
            one, at = _set(text, at)
            pieces.append(one)
            continue
        else:
            pieces.append(One(((character, character),)))
        at += 1
    return Pattern(text, tuple(pieces))


def literal(text: str) -> str:
    """Text with its glob characters taken literally, so that a device's words can never widen a pattern."""
    return "".join(f"[{character}]" if character in "*?[" else character for character in text)


def _set(text: str, start: int) -> tuple[One, int]:
    at = start + 1
    negated = text[at : at + 1] in {"!", "^"}
    at += negated
    ranges: list[tuple[str, str]] = []
    first = at
    while at < len(text) and (text[at] != "]" or at == first):
        low = text[at]
        if text[at + 1 : at + 2] == "-" and at + 2 < len(text) and text[at + 2] != "]":
            high = text[at + 2]
            if high < low:
                raise PatternError(
                    f'the range "{low}-{high}" is empty', at, 3, f'write "{high}-{low}" in the brackets'
                )
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


def _single(piece: One) -> bool:
    return len(piece.ranges) == 1 and piece.ranges[0][0] == piece.ranges[0][1]


def _alternatives(text: str, at: int) -> str:
    end = text.find("}", at)
    if end < 0:
        return "alternatives are a list of patterns"
    spelled = [f'"{text[:at]}{piece}{text[end + 1 :]}"' for piece in text[at + 1 : end].split(",")]
    return f"write a list: [{', '.join(spelled)}]"
