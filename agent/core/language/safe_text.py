"""Safe display of text from hardware, kernel and hooks. All output uses these functions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from unicodedata import combining, east_asian_width

LIMIT = 64  # columns of a displayed text, before "…(+N)"

# str.isprintable is false for control, format (bidirectional, zero-width), surrogate, private and
# unassigned characters, and for every space but " ". It is true for these, but they are invisible.
_INVISIBLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
_SHORT = {"\t": r"\t", "\n": r"\n", "\r": r"\r"}


def make_printable(text: str, limit: int | None = LIMIT) -> str:
    r"""Return the text on one line, at most `limit` columns wide. A longer text ends with `…(+N)`: N hidden characters.

    Characters that move the cursor, change direction or hide text become `\x1b` or `\u202e`.
    Bytes that are not UTF-8 (surrogateescape) become escapes too. A changed text is in double quotes.
    Its own quotes and backslashes get a backslash. A text that begins with a quote is also in double quotes.
    So different texts never look the same.
    """
    is_quoted = text.startswith('"') or not _is_clean(text)
    room = len(text) * 10 + 2 if limit is None else max(limit, 2)  # 10: \U000e0001 is the longest escape
    pieces: list[str] = []
    width = 2 if is_quoted else 0
    for piece in _escape_pieces(text, quoted=is_quoted):
        # A combining mark has no width. It counts as one column, because a text may have thousands of them.
        width += max(1, count_columns(piece))
        if width > room:
            break
        pieces.append(piece)
    hidden_count = len(text) - len(pieces)
    body = "".join(pieces)
    return (f'"{body}"' if is_quoted else body) + (f"…(+{hidden_count})" if hidden_count else "")


def escape(text: str) -> str:
    """Return the text with the same characters escaped, without quotes and uncut. Backslashes stay."""
    return text if _is_clean(text) else "".join(_escape_pieces(text, quoted=False))


def shorten(text: str, limit: int) -> str:
    """Return the text with at most `limit` characters. A cut text ends with `…`."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def count_columns(text: str) -> int:
    """Return the terminal columns of a text that `escape` or `make_printable` made."""
    if text.isascii():
        return len(text)
    return sum(0 if combining(char) else 2 if east_asian_width(char) in "WF" else 1 for char in text)


def _is_clean(text: str) -> bool:
    return text.isprintable() and (text.isascii() or not _INVISIBLE.search(text))


def _escape_pieces(text: str, *, quoted: bool) -> Iterator[str]:
    """Yield the displayed text of each character."""
    for char in text:
        if quoted and char in '"\\':
            yield "\\" + char
        elif _is_clean(char):
            yield char
        else:
            yield _SHORT.get(char) or _escape_code(ord(char))


def _escape_code(code: int) -> str:
    if 0xDC80 <= code <= 0xDCFF:  # a byte that is not UTF-8, from surrogateescape
        code -= 0xDC00
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def format_count(number: int, noun: str, plural: str = "") -> str:
    """Return `1 device` or `1,000 devices`. `plural` is for words that need more than an `s`."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"
