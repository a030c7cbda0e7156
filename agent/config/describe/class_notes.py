"""What stands at the top of a class's file for whoever uses it: advice and traps, as paragraphs and as TOML."""

from __future__ import annotations

from collections.abc import Iterator

_TOML = "  "  # how far in TOML stands, behind the mark of a comment


def notes(text: str) -> list[tuple[bool, str]]:
    """Its pieces in order, each whether it is TOML to paste: a paragraph is one line, TOML as many as it has."""
    made: list[tuple[bool, str]] = []
    for toml, line in _head(text):
        if made and made[-1][0] == toml and line and made[-1][1]:
            made[-1] = (toml, f"{made[-1][1]}{chr(10) if toml else ' '}{line}")
        else:
            made.append((toml, line))
    return [piece for piece in made if piece[1]]


def _head(text: str) -> Iterator[tuple[bool, str]]:
    for line in text.splitlines():
        if not line.startswith("#"):
            return
        said = line.removeprefix("#").removeprefix(" ")
        yield said.startswith(_TOML), said.removeprefix(_TOML).rstrip()
