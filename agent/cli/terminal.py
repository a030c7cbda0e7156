"""Output terminal: its width, whether it shows colours, and which characters it can show."""

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
    """The properties of the output that decide how text is shown.

    width: number of columns, or None if the output is no screen. Then nothing is cut or folded: one record is one line.
    utc: show times in UTC, not in the time zone of this host.
    """

    width: int | None = None
    has_colours: bool = False
    has_unicode: bool = True
    utc: bool = False

    @classmethod
    def detect(
        cls, stream: TextIO, environ: Mapping[str, str] = os.environ, *, colour: str = "auto", utc: bool = False
    ) -> Terminal:
        """Return the terminal of a stream. `colour` is auto, always or never."""
        screen = stream.isatty()
        dumb = bool(environ.get("NO_COLOR")) or environ.get("TERM") == "dumb"
        return cls(
            width=shutil.get_terminal_size().columns if screen else None,
            has_colours=colour == "always" or (colour == "auto" and screen and not dumb),
            has_unicode=(stream.encoding or "").lower().replace("-", "") == "utf8",
            utc=utc,
        )

    def make_displayable(self, text: str) -> str:
        """Return the text with replacements for the characters that the terminal cannot show."""
        return text if self.has_unicode else text.translate(_PLAIN)

    def style(self, text: str, style: str) -> str:
        """Return the text in bold, dim, red or yellow.

        The text is unchanged if the terminal shows no colours, or with another style.
        """
        code = _CODES.get(style)
        return f"\033[{code}m{text}\033[0m" if self.has_colours and code and text else text


def cut(text: str, width: int, end: str = "…") -> str:
    """Return the text in at most `width` columns. Add `end` if something is cut off."""
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
    """Return the text filled with spaces to `width` columns. With `right`, the spaces come first."""
    space = " " * max(0, width - count_columns(text))
    return space + text if right else text + space
