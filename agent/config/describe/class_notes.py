"""Notes at the top of a class file: advice and traps for users, as paragraphs and as TOML."""

from __future__ import annotations

from collections.abc import Iterator

_TOML = "  "  # indentation of TOML after the comment mark


def parse_notes(text: str) -> list[tuple[bool, str]]:
    """Return the pieces in order, each with a flag: True for TOML. A paragraph is one line. TOML keeps its lines."""
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
