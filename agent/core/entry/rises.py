"""A counter that must not grow."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rises:
    """`rises`: the word that counts."""

    word: str
