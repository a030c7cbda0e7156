"""What stands at the top of a class's file for whoever uses it: advice and traps, as paragraphs and as TOML."""

from __future__ import annotations

from collections.abc import Iterator

_TOML = "  "  # how far in TOML stands, behind the mark of a comment


def parse_notes(text: str) -> list[tuple[bool, str]]:
    """Its pieces in order, each whether it is TOML to paste: a paragraph is one line, TOML as many as it has."""
    pieces: list[tuple[bool, str]] = []
    for toml, line in _list_head_lines(text):
        if pieces and pieces[-1][0] == toml and line and pieces[-1][1]:
            pieces[-1] = (toml, f"{pieces[-1][1]}{chr(10) if toml else ' '}{line}")
        else:
            pieces.append((toml, line))
    return [piece for piece in pieces if piece[1]]


def _list_head_lines(text: str) -> Iterator[tuple[bool, str]]:
    for line in text.splitlines():
        if not line.startswith("#"):
            return
        comment = line.removeprefix("#").removeprefix(" ")
        yield comment.startswith(_TOML), comment.removeprefix(_TOML).rstrip()
