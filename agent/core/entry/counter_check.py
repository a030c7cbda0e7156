"""A counter that must not grow."""

from __future__ import annotations

from agent.core.struct import Struct


class CounterCheck(Struct):
    """`rises`: the word that counts."""

    word: str
