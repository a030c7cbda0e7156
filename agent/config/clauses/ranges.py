"""Number ranges as text: `0-3,5,0x10-`."""

from __future__ import annotations

import re

_NUMBER = r"(?:0[xX])?[0-9a-fA-F]+"
_RANGE = re.compile(rf"\s*(?P<low>{_NUMBER})\s*(?:(?P<dash>-)\s*(?P<high>{_NUMBER})?\s*)?")
_DECIMAL = re.compile(r"[0-9]+|0[xX][0-9a-fA-F]+")


class RangeError(ValueError):
    """A faulty range. `at` and `length` mark the part. `write` says what to write instead."""

    def __init__(self, message: str, at: int, length: int, write: str) -> None:
        super().__init__(message)
        self.message = message
        self.at = at
        self.length = length
        self.write = write


def parse_ranges(text: str, *, hexadecimal: bool) -> tuple[tuple[int, int | None], ...]:
    """Return the ranges. Both ends belong to a range. None: the range has no upper end.

    hexadecimal: digits are hexadecimal also without prefix.

    Raises:
        RangeError: a part between commas is no number, no range, or empty.
    """
    ranges: list[tuple[int, int | None]] = []
    at = 0
    for piece in text.split(","):
        match = _RANGE.fullmatch(piece)
        ends = [end for end in match.group("low", "high") if end] if match else []
        if not ends or not (hexadecimal or all(_DECIMAL.fullmatch(end) for end in ends)) or len(piece) > 40:
            raise RangeError(f'"{piece}" is no range of numbers', at, len(piece), _get_example(hexadecimal=hexadecimal))
        low, *later_ends = (int(end, 16 if hexadecimal or end[:2] in {"0x", "0X"} else 10) for end in ends)
        high = later_ends[0] if later_ends else None if match and match["dash"] else low
        if high is not None and high < low:
            raise RangeError(f'the range "{piece}" is empty', at, len(piece), f'write "{ends[1]}-{ends[0]}"')
        ranges.append((low, high))
        at += len(piece) + 1
    return tuple(ranges)


def _get_example(*, hexadecimal: bool) -> str:
    return 'write for example "1572-158b"' if hexadecimal else 'write for example "0-3,5,8-"'
