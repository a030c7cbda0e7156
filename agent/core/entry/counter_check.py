"""Counter checks: the counter must not grow."""

from __future__ import annotations

from agent.core.struct import Struct


class CounterCheck(Struct):
    """A counter check (`rises`). word: the word whose value is the counter."""

    word: str
