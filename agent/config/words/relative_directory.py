"""Directories relative to a device, as the place of partners. Each device has its own directory."""

from __future__ import annotations

import re

from agent.config.scope import Scope
from agent.config.toml.file_position import FilePosition, TextPiece
from agent.config.words.word_path import compile_path
from agent.core.entry.joins import RelativeDirectory
from agent.core.language import glob
from agent.core.language.glob import PatternError

_CAPTURE = re.compile(r"\{[A-Za-z_][A-Za-z0-9_]*:[a-z]*\}")
_SLOT = re.compile(r"\{[^{}:]*\}")


def is_relative(path: object) -> bool:
    """Return whether a pattern is relative: below the device, or below the device of a relation."""
    return isinstance(path, str) and not path.startswith("/")


def mask_words(written: str) -> str:
    """Return a pattern of equal length with `?` for each word. Captures stay."""
    return _SLOT.sub(lambda match: "?" * len(match[0]), written) if is_relative(written) else written


def compile_relative_directory(spot: FilePosition, written: str, scope: Scope) -> RelativeDirectory | None:
    """Return the directory of a relative `dir`, or None. Faults are reported.

    In the path, `{word}` is replaced by a value, and `{word:type}` captures a value.
    """
    head, _, pattern = mask_words(written).partition("/")
    try:
        glob.parse(pattern, allow_captures=True)
    except PatternError as error:
        mark = TextPiece(len(head) + 1 + error.at, error.length)
        scope.report_error(spot, "glob", error.message, error.write, mark=mark)
        return None
    takes = glob.parse(_SLOT.sub("*", written.partition("/")[2]), allow_captures=True)
    word_path = compile_path(spot, _CAPTURE.sub("*", written), scope)
    return None if word_path is None else RelativeDirectory(word_path.path, takes)
