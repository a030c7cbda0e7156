"""Where an answer goes: how wide it may be, whether colours mean something there, which characters can be shown."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from typing import TextIO

from agent.core.language.safe_text import count_columns
from agent.core.struct import Struct

_PLAIN = str.maketrans({"✖": "x", "●": "*", "–": "-", "→": "->", "…": "...", "×": "x", "█": "#", "░": ".", "─": "-"})
_CODES = {"bold": "1", "dim": "2", "red": "31", "yellow": "33"}


class Terminal(Struct):
    """How to show text.

    width: columns to stay within; None where nothing is a screen: no cut, no fold, one record a line.
    utc: times are not those of this host.
    """

    width: int | None = None
    colour: bool = False
    unicode: bool = True
    utc: bool = False

    @classmethod
    def detect(
        cls, stream: TextIO, environ: Mapping[str, str] = os.environ, *, colour: str = "auto", utc: bool = False
    ) -> Terminal:
        """The one behind a stream; `colour` is auto, always or never."""
        screen = stream.isatty()
        dumb = bool(environ.get("NO_COLOR")) or environ.get("TERM") == "dumb"
        return cls(
            width=shutil.get_terminal_size().columns if screen else None,
            colour=colour == "always" or (colour == "auto" and screen and not dumb),
            unicode=(stream.encoding or "").lower().replace("-", "") == "utf8",
            utc=utc,
        )

    def make_displayable(self, text: str) -> str:
        """The text with the characters that can be shown here."""
        return text if self.unicode else text.translate(_PLAIN)

    def style(self, text: str, style: str) -> str:
        """The text in one of bold, dim, red, yellow, where that can be seen; with any other style as it is."""
        code = _CODES.get(style)
        return f"\033[{code}m{text}\033[0m" if self.colour and code and text else text


def cut(text: str, width: int, end: str = "…") -> str:
    """The text in at most `width` columns, `end` behind it if something is left out."""
    if count_columns(text) <= width:
        return text
    available_width = width - count_columns(end)
    if available_width < 0:
        return ""
    visible_text = text[:available_width]
    while count_columns(visible_text) > available_width:
        visible_text = visible_text[:-1]
    return f"{visible_text.rstrip()}{end}"


def pad(text: str, width: int, *, right: bool = False) -> str:
    """The text with spaces to that width, in front of it if it stands right."""
    space = " " * max(0, width - count_columns(text))
    return space + text if right else text + space
