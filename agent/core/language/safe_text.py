"""Text that others wrote (hardware, kernel, hooks), made safe to show: the one function for all output."""

from __future__ import annotations

import re
from collections.abc import Iterator
from unicodedata import combining, east_asian_width

LIMIT = 64  # columns of a shown text, before "…(+N)"

# str.isprintable is false for control, format (bidirectional, zero-width), surrogate, private and
# unassigned characters and for every space but " ". These are printable to it, and yet not seen.
_INVISIBLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
_SHORT = {"\t": r"\t", "\n": r"\n", "\r": r"\r"}


def make_printable(text: str, limit: int | None = LIMIT) -> str:
    r"""The text on one line, at most `limit` columns wide and then `…(+N)`, N counting what is left out.

    Characters that move the cursor, turn or hide text, and bytes that were no UTF-8 (as surrogateescape
    decodes them) become `\x1b`, `\u202e`. A text so changed stands in double quotes, its own quotes and
    backslashes doubled up with a backslash, and so does one that begins with a quote: what is shown says
    exactly what was there.
    """
    is_quoted = text.startswith('"') or not _is_clean(text)
    room = len(text) * 10 + 2 if limit is None else max(limit, 2)  # 10: \U000e0001 is the longest escape
    pieces: list[str] = []
    width = 2 if is_quoted else 0
    for piece in _escape_pieces(text, quoted=is_quoted):
        # A combining mark has no width, but thousands of them on one letter have to end as well.
        width += max(1, count_columns(piece))
        if width > room:
            break
        pieces.append(piece)
    hidden_count = len(text) - len(pieces)
    body = "".join(pieces)
    return (f'"{body}"' if is_quoted else body) + (f"…(+{hidden_count})" if hidden_count else "")


def escape(text: str) -> str:
    """The text with the same characters escaped, neither quoted nor cut; backslashes stay as they are."""
    return text if _is_clean(text) else "".join(_escape_pieces(text, quoted=False))


def shorten(text: str, limit: int) -> str:
    """The text, or as much of it as so many characters hold, with a mark of the rest."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def count_columns(text: str) -> int:
    """How many columns of a terminal a text takes that `escape` or `printable` has been over."""
    if text.isascii():
        return len(text)
    return sum(0 if combining(char) else 2 if east_asian_width(char) in "WF" else 1 for char in text)


def _is_clean(text: str) -> bool:
    return text.isprintable() and (text.isascii() or not _INVISIBLE.search(text))


def _escape_pieces(text: str, *, quoted: bool) -> Iterator[str]:
    """What is shown for each character, one piece each."""
    for char in text:
        if quoted and char in '"\\':
            yield "\\" + char
        elif _is_clean(char):
            yield char
        else:
            yield _SHORT.get(char) or _escape_code(ord(char))


def _escape_code(code: int) -> str:
    if 0xDC80 <= code <= 0xDCFF:  # a byte that is no UTF-8, as surrogateescape keeps it
        code -= 0xDC00
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def format_count(number: int, noun: str, plural: str = "") -> str:
    """`1 device`, `1,000 devices`; `plural` where an `s` does not make it."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"
