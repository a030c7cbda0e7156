"""Operands: globs, and texts without words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TypeVar

from agent.config.scope import Scope
from agent.config.toml.file_position import FilePosition, TextPiece
from agent.core.language import glob

_T = TypeVar("_T")

_WORD_IN_OPERAND = re.compile(
    r"(?<!\\[pPx])\{[A-Za-z_][A-Za-z0-9_.]*(?:\|[^{}]*)?\}"
)  # \p{Greek} belongs to an expression


def compile_glob(spot: FilePosition, value: object, scope: Scope) -> glob.Glob | None:
    """Return the glob of a value, or None with a finding."""
    if not isinstance(value, str):
        scope.report_error(spot, "type", "a pattern is text", f'write "{spot.source_text}"')
        return None
    if refuse_word(spot, value, scope):
        return None
    try:
        return glob.parse(value)
    except glob.PatternError as error:
        scope.report_error(spot, "glob", error.message, error.write, mark=TextPiece(error.at, error.length))
        return None


def refuse_word(spot: FilePosition, value: str, scope: Scope) -> bool:
    """Report an operand with a `{word}`. Return whether there is one. No test compares two words."""
    match = _WORD_IN_OPERAND.search(value)
    if match is None:
        return False
    message = f"a test compares with what is written, and {match[0]} is a word"
    mark = TextPiece(match.start(), len(match[0]))
    scope.report_error(spot, "text", message, "compare two words by a join's on", mark=mark)
    return True


def require_all(items: Sequence[_T | None]) -> list[_T]:
    """Return the items if none is missing, else an empty list."""
    present_items = [item for item in items if item is not None]
    return present_items if len(present_items) == len(items) else []
