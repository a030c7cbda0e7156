"""The rule for paths in a configuration: absolute and in their shortest form."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence

from agent.core.language.template import has_control
from agent.core.struct import Struct


class PathFault(Struct):
    """The fault of a path, with its correction."""

    message: str
    write: str = ""


def find_path_fault(
    path: str, *, directory_mark: bool = False, below: Sequence[str] = (), example: str = ""
) -> PathFault | None:
    """Return the fault of a path, or None.

    directory_mark: the path may end with a slash. below: allowed directories. A path outside is never proposed.
    example: the proposal if the path itself gives none.
    """
    if has_control(path):
        return PathFault("a path has no control characters")
    has_parent_step = ".." in path.split("/")
    if not path.startswith("/"):
        proposal = "" if has_parent_step or not path else "/" + posixpath.normpath(path)
        return PathFault('a path is absolute: it begins with "/"', _format_proposal(proposal, below, example))
    if has_parent_step:
        return PathFault('a path has no ".." in it', _format_proposal(posixpath.normpath(path), below, example))
    path_without_slash = path[:-1] if directory_mark and path.endswith("/") and len(path) > 1 else path
    shortest = "/" + posixpath.normpath(path_without_slash).lstrip("/")  # normpath keeps two leading slashes
    if path_without_slash != shortest:
        return PathFault("a path is in its shortest form", _format_proposal(shortest, below, example))
    return None


def suggest_path(path: str) -> str:
    """Return the correction of a path to read: the path without `..`."""
    return _format_proposal(posixpath.normpath(path), ("/sys/", "/proc/", "/dev/"), "/sys/class/…")


def _format_proposal(path: str, below: Sequence[str], example: str) -> str:
    """Return the correction: the path if it is allowed, else the example."""
    if path in {"", "/"} or (below and not path.startswith(tuple(below))):
        return f'write for example "{example}"' if example else ""
    return f'write "{path}"'
